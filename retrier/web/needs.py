"""What needs a person: how many, of what, why, and the act to do next. Nothing is counted here."""

from collections.abc import Iterator, Sequence
from itertools import islice
from urllib.parse import urlencode

from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.values import dataclass
from retrier.web.breakers import KINDS
from retrier.web.counts import Snapshot
from retrier.web.operation_lines import operation_line
from retrier.web.operations import outcome_link
from retrier.web.streams import tell_held_in_all
from retrier.web.wording import capital, noun, sentence

MOST_OF_A_KIND = 3
"""Operations and breakers are told one by one up to here, and the others together."""
_MOST_IN_WORDS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing: `count` leads to `link`, which shows exactly what is counted.

    `act` is what to do next: its name, and where that is asked or done. It opens a preview, a page,
    or is done by a form (`posts`). `key` names the line while it is there.
    """

    key: str
    count: int
    words: str
    link: str
    why: str = ""
    tone: str = "wait"
    act: tuple[str, str] | None = None
    is_preview: bool = False
    posts: bool = False

    @property
    def live(self) -> str:
        """How the keys of its texts begin."""
        return f"need/{self.key}"


def needs(found: Snapshot) -> Sequence[Need]:
    """Return all of them, what weighs most first; none if nothing needs anybody."""
    return [
        each
        for kind in (
            _new,
            _came_back,
            _unsent,
            _asking,
            _stopped,
            _imports,
            _dead,
            _breakers,
            _held,
            _in_doubt,
        )
        for each in kind(found)
    ]


def _new(found: Snapshot) -> Iterator[Need]:
    count = found.new_groups
    if count:
        yield Need(
            key="new",
            count=count,
            words=f"new {noun(count, 'group')} in 24 hours",
            link="/groups?since=24h",
            why="First seen since then: look whether something was changed.",
            tone="bad",
            act=("Look at them", "/groups?since=24h&sort=first"),
        )


def _came_back(found: Snapshot) -> Iterator[Need]:
    back = [
        each
        for each in found.operations.values()
        if each.outcomes.came_back and each.acknowledged_at is None and not each.is_standing
    ]
    back.sort(key=lambda each: each.created_at, reverse=True)
    for each in islice(back, MOST_OF_A_KIND):
        count, is_over = each.outcomes.came_back, each.completed_at is not None
        at = f"/operations/{each.operation_id}"
        yield Need(
            key=f"back-{each.operation_id}",
            count=count,
            words=f"of {each.forwarded:,} came back after a retry",
            link=outcome_link(each, RetryOutcome.CAME_BACK),
            why=f"{_named(each)}, by {each.requested_by}.",
            tone="bad",
            act=("I have seen it", f"{at}/acknowledge") if is_over else ("Look at it", at),
            posts=is_over,
        )
    more = len(back) - MOST_OF_A_KIND
    words = f"more {noun(more, 'retry', 'retries')} of which messages came back"
    yield from _others("back", more, words, "/history", "bad")


def _unsent(found: Snapshot) -> Iterator[Need]:
    """Tell of retries that are over, and of which the broker would not take each message."""
    unsent = [
        each
        for each in found.operations.values()
        if each.failed and each.completed_at and not each.acknowledged_at and not each.is_standing
    ]
    unsent.sort(key=lambda each: each.created_at, reverse=True)
    for each in islice(unsent, MOST_OF_A_KIND):
        at = f"/operations/{each.operation_id}"
        yield Need(
            key=f"unsent-{each.operation_id}",
            count=each.failed,
            words=f"of {each.total:,} could not be sent back",
            link=at,
            why=f"{_named(each)}, by {each.requested_by}. The page of each message says why.",
            tone="bad",
            act=("I have seen it", f"{at}/acknowledge"),
            posts=True,
        )
    more = len(unsent) - MOST_OF_A_KIND
    words = f"more {noun(more, 'retry', 'retries')} of which messages could not be sent"
    yield from _others("unsent", more, words, "/history", "bad")


def _others(kind: str, more: int, words: str, link: str, tone: str = "wait") -> Iterator[Need]:
    """Tell of those of a kind together that are not told one by one, if there are any."""
    if more > 0:
        yield Need(key=f"{kind}-more", count=more, words=words, link=link, tone=tone)


def _named(each: RetryOperation) -> str:
    return capital(each.originator)[:_MOST_IN_WORDS]


def _asking(found: Snapshot) -> Iterator[Need]:
    """Tell of operations that wait for approval by a second person."""
    asking = [each for each in found.work.queue.operations if each.is_asking]
    for each in asking[:MOST_OF_A_KIND]:
        yield Need(
            key=f"asking-{each.operation_id}",
            count=each.total,
            words=f"{noun(each.total, 'message')} of a retry that waits for approval",
            link=f"/operations/{each.operation_id}",
            why=f"{_named(each)}, by {each.requested_by}.",
            act=("Decide", f"/operations/{each.operation_id}"),
        )
    more = len(asking) - MOST_OF_A_KIND
    words = f"more {noun(more, 'retry', 'retries')} that wait for approval"
    yield from _others("asking", more, words, "/approvals")


def _stopped(found: Snapshot) -> Iterator[Need]:
    """Tell of operations that are paused, or that something holds up for which a time is not known."""
    queue = found.work.queue
    stopped = [
        (each, line)
        for each in queue.operations
        if not each.is_asking
        and (line := operation_line(each, found.at, queue.schedule, queue.obstacles)).waits
        and (line.is_paused or (each.left_out or each.passed_over))
    ]
    for each, line in islice(stopped, MOST_OF_A_KIND):
        at = f"/operations/{each.operation_id}"
        state = "paused" if line.is_paused else "held"
        yield Need(
            key=f"stopped-{each.operation_id}",
            count=each.remaining,
            words=f"{noun(each.remaining, 'message')} of an operation that is {state}",
            link=at,
            why=f"{_named(each)}: {line.waits}",
            act=("Resume", f"{at}/resume") if line.is_paused else ("Look at it", at),
            posts=line.is_paused,
        )
    more = len(stopped) - MOST_OF_A_KIND
    words = f"more {noun(more, 'operation')} paused or held"
    yield from _others("stopped", more, words, "/operations")


def _imports(found: Snapshot) -> Iterator[Need]:
    count = found.others.imports
    if count:
        yield Need(
            key="imports",
            count=count,
            words=f"{noun(count, 'message')} could not be read",
            link="/imports",
            why="Failed imports wait for a person.",
            act=("Read again", "/imports/selected?act=again&all=1"),
            is_preview=True,
        )


def _dead(found: Snapshot) -> Iterator[Need]:
    if found.dead:
        here = "/messages?disposition=dead"
        yield Need(
            key="dead",
            count=found.dead,
            words=f"{noun(found.dead, 'message')} dead",
            link=here,
            why="Nothing but a person's retry takes them.",
            tone="bad",
            act=("Retry", "/messages/selected?act=retry&all=1&disposition=dead&back=/"),
            is_preview=True,
        )


def _breakers(found: Snapshot) -> Iterator[Need]:
    waiting = list(found.breakers.waiting.items())
    for each, why in waiting[:MOST_OF_A_KIND]:
        count = found.count_of(found.breakers.causes.get(each.key, ()))
        name = str(each.key)
        yield Need(
            key=f"breaker-{name}",
            count=count,
            words=f"{noun(count, 'message')} behind an open breaker of the "
            f"{KINDS[each.key.per]} {each.key.name[:_MOST_IN_WORDS]}",
            link="/breakers",
            why=sentence(why),
            act=("Close", f"/breakers/close?{urlencode({'breaker': name})}"),
            is_preview=True,
        )
    more = len(waiting) - MOST_OF_A_KIND
    yield from _others("breaker", more, f"more {noun(more, 'breaker')} open", "/breakers")


def _held(found: Snapshot) -> Iterator[Need]:
    count = found.held.messages
    if count:
        yield Need(
            key="held",
            count=count,
            words=f"{noun(count, 'message')} held by {noun(count, 'its stream', 'their streams')}",
            link="/streams?held=1",
            why=tell_held_in_all(found.held),
            act=("Look at them", "/streams?held=1"),
        )


def _in_doubt(found: Snapshot) -> Iterator[Need]:
    count = found.others.in_doubt
    if count:
        yield Need(
            key="in-doubt",
            count=count,
            words=f"failed {noun(count, 'import')} in doubt",
            link="/imports",
            why="The broker's answer did not come: look whether it arrived, then delete or send it.",
            act=("Look at them", "/imports"),
        )
