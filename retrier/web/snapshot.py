"""What the page knows at one moment: counts of groups and queues, the plot, the work of retries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from retrier.domain.archive_operation import ArchiveOperation
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailureGroup
from retrier.domain.retry_operation import RetryOperation
from retrier.store.queries.breaker_waits import SeenByPeople
from retrier.store.queries.message_marks import MessageMark
from retrier.store.queries.operation_outcomes import Outcomes
from retrier.store.queries.page_counts import CauseCount, CauseFacts, OtherCounts
from retrier.store.queries.processor_work import ProcessorState
from retrier.store.queries.streams import HeldMessages
from retrier.web.watches import SeenStreams

Groups = Mapping[str, Sequence["CountLine"]]

_MOST_OPERATIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLine:
    """The unresolved messages of a group or a queue, with a sample of what their exceptions say.

    `key` is the id of the group, or the name of the queue. `queues` begins with the fullest one.
    """

    key: str
    title: str
    count: int
    dead: int
    scheduled: int
    first: datetime
    last: datetime
    queues: tuple[str, ...]
    sample: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What happened in one minute."""

    at: datetime
    failed: int = 0
    sent: int = 0
    confirmed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was counted at `at`, a time of the database; `taken` is the same by our own clock.

    `up_to` is the failure number up to which failures are counted. `groups` are by classifier,
    newest failure first. `operations` are the retries alive and the last ones that are over.
    `breakers` and `streams` are what makes messages wait.
    `archives` are archive operations that are open, or were a moment ago.
    `messages` are the marks of those whose pages are open.
    `version` is that of the texts which tabs were sent from it.
    """

    at: datetime
    taken: float
    up_to: int
    last_event: int
    causes: Mapping[int, CauseCount]
    groups: Groups
    queues: Sequence[CountLine]
    others: OtherCounts
    minutes: Sequence[Minute]
    work: ProcessorState
    operations: Mapping[str, RetryOperation]
    outcomes: Mapping[str, Outcomes]
    breakers: SeenByPeople
    streams: SeenStreams
    archives: Mapping[str, ArchiveOperation] = field(default_factory=dict)
    messages: Mapping[str, MessageMark] = field(default_factory=dict)
    version: str = ""

    def count_of(self, causes: Iterable[int]) -> int:
        """Return how many messages of these causes are unresolved and not dead."""
        found = (self.causes[each] for each in causes if each in self.causes)
        return sum(each.count - each.dead for each in found)

    @property
    def held(self) -> HeldMessages:
        """What streams hold in all."""
        return self.streams.held

    @property
    def unresolved(self) -> int:
        """How many messages are unresolved."""
        return sum(each.count for each in self.causes.values())

    @property
    def dead(self) -> int:
        """How many of these are dead."""
        return sum(each.dead for each in self.causes.values())

    @property
    def scheduled(self) -> int:
        """How many of these are scheduled."""
        return sum(each.scheduled for each in self.causes.values())


def add_causes(
    known: Mapping[int, CauseCount], more: Iterable[CauseCount]
) -> Mapping[int, CauseCount]:
    """Return the counts with those of new failures added."""
    together = dict(known)
    for each in more:
        before = together.get(each.cause_id)
        together[each.cause_id] = each if before is None else _add(before, each)
    return together


def _add(one: CauseCount, other: CauseCount) -> CauseCount:
    return CauseCount(
        cause_id=one.cause_id,
        count=one.count + other.count,
        dead=one.dead + other.dead,
        scheduled=one.scheduled + other.scheduled,
        first=min(one.first, other.first),
        last=max(one.last, other.last),
    )


Members = list[tuple[CauseCount, CauseFacts]]


def count_groups(causes: Mapping[int, CauseCount], facts: Mapping[int, CauseFacts]) -> Groups:
    """Return the groups of each classifier, newest failure first."""
    members: dict[FailureGroup, Members] = {}
    for cause_id, counted in causes.items():
        for group in facts[cause_id].groups if cause_id in facts else ():
            members.setdefault(group, []).append((counted, facts[cause_id]))
    found: dict[str, list[CountLine]] = {classifier: [] for classifier in CLASSIFIERS}
    for group, of_group in members.items():
        line = _line(group.group_id, group.title, of_group)
        found.setdefault(group.classifier, []).append(line)
    return {classifier: _newest_first(lines) for classifier, lines in found.items()}


def count_queues(
    causes: Mapping[int, CauseCount], facts: Mapping[int, CauseFacts]
) -> Sequence[CountLine]:
    """Return the queues on which messages failed, newest failure first."""
    members: dict[str, Members] = {}
    for cause_id, counted in causes.items():
        if cause_id in facts:
            members.setdefault(facts[cause_id].queue, []).append((counted, facts[cause_id]))
    return _newest_first(_line(queue, queue, of_queue) for queue, of_queue in members.items())


def _newest_first(lines: Iterable[CountLine]) -> Sequence[CountLine]:
    return sorted(lines, key=lambda each: (each.last, each.key), reverse=True)


def _line(key: str, title: str, members: Members) -> CountLine:
    fullest = sorted(members, key=lambda each: -each[0].count)
    counts = [counted for counted, _ in members]
    return CountLine(
        key=key,
        title=title,
        count=sum(each.count for each in counts),
        dead=sum(each.dead for each in counts),
        scheduled=sum(each.scheduled for each in counts),
        first=min(each.first for each in counts),
        last=max(each.last for each in counts),
        queues=tuple(dict.fromkeys(facts.queue for _, facts in fullest)),
        sample=_sample(fullest[0][1]),
    )


def _sample(facts: CauseFacts) -> str | None:
    said = facts.exception_message or facts.failure_reason
    return said.strip().split("\n", 1)[0] if said else None


def operations_of(state: ProcessorState) -> Mapping[str, RetryOperation]:
    """Return the operations that wait or are at work, by their ids."""
    return {each.operation_id: each for each in state.queue.operations}


def newest(operations: Iterable[RetryOperation]) -> Mapping[str, RetryOperation]:
    """Return these by their ids, without the oldest ones if they are too many."""
    ordered = sorted(operations, key=lambda each: each.created_at, reverse=True)
    return {each.operation_id: each for each in ordered[:_MOST_OPERATIONS]}
