"""The sentence above the overview, which says what is the matter, and the one below it."""

from collections.abc import Iterator

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailedMessageStatus
from retrier.web.snapshot import Snapshot
from retrier.web.views.streams import tell_held_in_all
from retrier.web.wording import ago, in_words, listed, number

_MOST_IN_TITLE = 100


def headline(found: Snapshot) -> str:
    """Return the sentence."""
    count, groups = found.unresolved, found.groups.get(CLASSIFIERS[0], ())
    if count == 0:
        return "Nothing is unresolved"
    failed = "1 message is unresolved" if count == 1 else f"{number(count)} messages are unresolved"
    if len(groups) == 1:
        return f"{failed}: {groups[0].title[:_MOST_IN_TITLE]}"
    return f"{failed}, in {in_words(len(groups))} groups"


def lead(found: Snapshot) -> str:
    """Return the sentences below it: the newest failure, and what is being retried."""
    return " ".join(_sentences(found))


def _sentences(found: Snapshot) -> Iterator[str]:
    groups = found.groups.get(CLASSIFIERS[0], ())
    if groups:
        newest = max(groups, key=lambda each: each.last)
        yield f"The newest failed {ago(newest.last, found.at)} on {newest.queues[0]}."
    elif sum(found.others.statuses.values()) == 0:
        yield "No message has failed yet: what arrives on an error queue is here within seconds."
    else:
        yield "Everything that failed is dealt with, or its retry is on its way."
    issued = found.others.statuses.get(FailedMessageStatus.RETRY_ISSUED, 0)
    left = sum(each.remaining for each in found.work.queue.operations)
    if left:
        yield f"{number(left)} {'is' if left == 1 else 'are'} being retried."
    elif issued:
        yield f"{number(issued)} {'retry has' if issued == 1 else 'retries have'} no outcome yet."
    yield from _of_what_waits(found)


def _of_what_waits(found: Snapshot) -> Iterator[str]:
    names = [each.key.name[:_MOST_IN_TITLE] for each in found.breakers.waiting]
    if names:
        yield f"Breakers hold retries to {listed(names)}."
    if found.held.messages:
        yield tell_held_in_all(found.held)
