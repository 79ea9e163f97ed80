"""The counts of the page, kept in memory: a page of a million messages must not count them itself.

A job of the service calls `tick` every second. It decides by what the last count cost whether it
counts again: at most a tenth of a thread is spent, however many messages there are.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter

from retrier.clock import Clock
from retrier.domain.archive_operation import ArchiveOperation, ArchiveOperationState
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailureGroup
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.streams import Stream
from retrier.domain.values import dataclass
from retrier.errors import DatabaseUnavailable, RetrierError, TablesMissing
from retrier.http.cache import Pace
from retrier.http.problems import STARTING
from retrier.store.archive_lists import find_archive_operation, list_open_archives
from retrier.store.breaker_lists import SeenByPeople, show_breakers
from retrier.store.engine.database import Database
from retrier.store.event_log import Mark, list_newest_told
from retrier.store.figures import (
    CauseCount,
    CauseFacts,
    OtherCounts,
    count_others,
    count_unresolved,
    find_cause_facts,
)
from retrier.store.message_details import MessageMark, find_marks
from retrier.store.message_lists import PageRequest
from retrier.store.operation_lists import find_operation, read_history
from retrier.store.processor_work import ProcessorState, find_processor
from retrier.store.streams import (
    HeldMessages,
    ListedStream,
    count_held,
    find_stream,
    list_streams,
)
from retrier.web.live_page import MOST_TABS
from retrier.web.series import Series, Slot

WATCHED_FOR = 60.0
"""Seconds after the last look of a person in which somebody counts as looking."""
WATCHED = Pace(times=20, least=1.0)
"""A whole count and a look at what is new may each take a twentieth of a thread."""
UNWATCHED = Pace(times=200, least=30.0)
"""A tenth of that while nobody looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCount:
    """When something was done last, and what it cost, in seconds of our own clock."""

    ended: float = 0.0
    cost: float = 0.0

    def is_due(self, now: float, pace: Pace) -> bool:
        """Say whether it may be done again."""
        return now >= self.ended + pace.rest(self.cost)


_KEPT = 50
"""Operations and streams that are told of though they are over: the last ones.

Of operations that are open, no more either.
"""
MOST_STREAMS = 200
"""Streams whose rows are told: those that hold most. Rows of others change when they are loaded."""


class ArchiveWatch:
    """Knows the operations that are open, and how those ended that were open at an earlier look."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: Mapping[str, ArchiveOperation] = {}

    def look(self) -> Mapping[str, ArchiveOperation]:
        """Return them by id."""
        still = {each.operation_id: each for each in list_open_archives(self._db, _KEPT)}
        gone = [
            key
            for key, each in self._known.items()
            if key not in still and each.state is not ArchiveOperationState.COMPLETED
        ]
        found = (find_archive_operation(self._db, key) for key in gone)
        ended = {each.operation_id: each for each in found if each is not None}
        over = {
            key: each
            for key, each in self._known.items()
            if each.state is ArchiveOperationState.COMPLETED
        }
        newest = list({**over, **ended}.items())[-_KEPT:]
        self._known = {**dict(newest), **still}
        return self._known


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStreams:
    """What is held in all, the streams that are told, and those that ended since they were."""

    held: HeldMessages = field(default_factory=HeldMessages)
    listed: Mapping[Stream, ListedStream] = field(default_factory=dict)
    ended: tuple[Stream, ...] = ()


class StreamWatch:
    """Knows which streams it told of, and which of these have no open message any more."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._seen = SeenStreams()

    def look(self) -> SeenStreams:
        """Return what is to be told now."""
        found = list_streams(self._db, PageRequest(size=MOST_STREAMS)).items
        listed = {each.stream: each for each in found}
        # One that is not listed may only have fallen behind others: then nothing is said of it.
        lost = [each for each in self._seen.listed if each not in listed]
        ended = (*self._seen.ended, *(each for each in lost if self._is_over(each)))
        still = dict.fromkeys(each for each in reversed(ended) if each not in listed)
        kept = tuple(islice(still, _KEPT))
        self._seen = SeenStreams(
            held=count_held(self._db), listed=listed, ended=tuple(reversed(kept))
        )
        return self._seen

    def _is_over(self, stream: Stream) -> bool:
        return find_stream(self._db, stream, PageRequest(size=1)) is None


class MessageWatch:
    """Knows which messages somebody looked at lately. Any thread may note one."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}

    def note(self, unique_id: str) -> None:
        """Note that somebody looks at this message. A tab says so again while it is connected."""
        if not is_guid(unique_id):
            return
        with self._lock:
            self._noted.pop(canonical(unique_id), None)
            self._noted[canonical(unique_id)] = self._clock.monotonic()
            # Addresses with made-up ids cost no more than as many tabs as may be open.
            while len(self._noted) > MOST_TABS:
                del self._noted[next(iter(self._noted))]

    def look(self) -> Mapping[str, MessageMark]:
        """Return the marks of these messages; nothing is asked for none."""
        return find_marks(self._db, self._still())

    def _still(self) -> tuple[str, ...]:
        least = self._clock.monotonic() - WATCHED_FOR
        with self._lock:
            self._noted = {key: at for key, at in self._noted.items() if at > least}
            return tuple(self._noted)


Groups = Mapping[str, Sequence["CountLine"]]

_MOST_OPERATIONS = 100
NEW_FOR = timedelta(hours=24)
"""How long a group is new, unless a reader says since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLine:
    """The unresolved messages of a group or a queue, with a sample of what their exceptions say.

    `key` is the id of the group, or the name of the queue. `queues` begins with the fullest one.
    `first_seen` is when it was first heard of, also by messages that are dealt with since.
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
    first_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was counted at `at`, a time of the database; `taken` is the same by our own clock.

    `up_to` is the failure number up to which failures are counted. `groups` are by classifier,
    newest failure first. `operations` are the retries alive and the last ones that are over.
    `breakers` and `streams` are what makes messages wait. `minutes` are those of a day, `hours` what
    was before them, `marks` the events that the plot shows. `told` are the ids of the newest events
    that are not routine, newest first.
    `archives` are archive operations that are open, or were a moment ago.
    `messages` are the marks of those whose pages are open.
    `new_groups` counts those of the first classifier that were first seen within NEW_FOR, `alone`
    those of one message. `group_ids` are those of all. `version` is that of the texts which tabs were sent from it.
    """

    at: datetime
    taken: float
    up_to: int
    told: tuple[int, ...]
    causes: Mapping[int, CauseCount]
    groups: Groups
    group_ids: frozenset[str]
    new_groups: int
    alone: int
    queues: Sequence[CountLine]
    others: OtherCounts
    minutes: Sequence[Slot]
    hours: Sequence[Slot]
    marks: Sequence[Mark]
    work: ProcessorState
    operations: Mapping[str, RetryOperation]
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
    def waiting(self) -> Mapping[str, int]:
        """The counts of the bar, by their keys."""
        messages = {
            "nav/pending": self.others.pending,
            "nav/imports": self.others.imports,
            "nav/streams": self.held.messages,
        }
        return {
            "nav/waiting": sum(messages.values()),
            "nav/breakers": len(self.breakers.waiting),
            **messages,
        }

    @property
    def unresolved(self) -> int:
        """How many messages are unresolved."""
        return sum(each.count for each in self.queues)

    @property
    def dead(self) -> int:
        """How many of these are dead."""
        return sum(each.dead for each in self.queues)

    @property
    def scheduled(self) -> int:
        """How many of these are scheduled."""
        return sum(each.scheduled for each in self.queues)


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
        surely=min(one.surely, other.surely),
        last=max(one.last, other.last),
    )


Members = list[tuple[CauseCount, CauseFacts]]


def count_groups(causes: Mapping[int, CauseCount], facts: Mapping[int, CauseFacts]) -> Groups:
    """Return the groups of each classifier, newest failure first."""
    groups: dict[str, FailureGroup] = {}
    members: dict[str, Members] = {}
    for cause_id, counted in causes.items():
        if cause_id in facts:
            known = facts[cause_id]
            for group in known.groups:
                groups.setdefault(group.group_id, group)
                members.setdefault(group.group_id, []).append((counted, known))
    found: dict[str, list[CountLine]] = {classifier: [] for classifier in CLASSIFIERS}
    for key, of_group in members.items():
        line = _line(key, groups[key].title, of_group)
        found.setdefault(groups[key].classifier, []).append(line)
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


def add_lines(known: Sequence[CountLine], news: Iterable[CountLine]) -> Sequence[CountLine]:
    """Return the lines with those of new failures added, newest failure first.

    Only lines with news are made anew: where each message is a group, all of them take seconds.
    Which queue is the fullest one, and the sample, is as it was until all are counted again.
    """
    added = {each.key: each for each in news}
    if not added:
        return known
    before = {each.key: each for each in known if each.key in added}
    changed = [
        _add_line(before[key], each) if key in before else each for key, each in added.items()
    ]
    return _newest_first([*changed, *(each for each in known if each.key not in added)])


def _add_line(one: CountLine, other: CountLine) -> CountLine:
    return replace(
        one,
        count=one.count + other.count,
        dead=one.dead + other.dead,
        scheduled=one.scheduled + other.scheduled,
        first=min(one.first, other.first),
        first_seen=min(one.first_seen, other.first_seen),
        last=max(one.last, other.last),
        queues=tuple(dict.fromkeys((*one.queues, *other.queues))),
        sample=one.sample or other.sample,
    )


def _newest_first(lines: Iterable[CountLine]) -> Sequence[CountLine]:
    return sorted(lines, key=attrgetter("last", "key"), reverse=True)


def _line(key: str, title: str, members: Members) -> CountLine:
    if len(members) == 1:
        return _line_of_one(key, title, *members[0])
    # The older cause first if they are as full: the database gives them in any order, and what is
    # new is added behind them.
    fullest = sorted(members, key=lambda each: (-each[0].count, each[0].cause_id))
    counts = [counted for counted, _ in members]
    surely = min(each.surely for each in counts)
    recorded = (facts.recorded.get(key, surely) for _, facts in members)
    return CountLine(
        key=key,
        title=title,
        count=sum(each.count for each in counts),
        dead=sum(each.dead for each in counts),
        scheduled=sum(each.scheduled for each in counts),
        first=min(each.first for each in counts),
        first_seen=min(surely, *recorded),
        last=max(each.last for each in counts),
        queues=tuple(dict.fromkeys(facts.queue for _, facts in fullest)),
        sample=_sample(fullest[0][1]),
    )


def _line_of_one(key: str, title: str, counted: CauseCount, facts: CauseFacts) -> CountLine:
    """Return the same of a single cause. Nearly all are so where each message is a group."""
    return CountLine(
        key=key,
        title=title,
        count=counted.count,
        dead=counted.dead,
        scheduled=counted.scheduled,
        first=counted.first,
        first_seen=min(counted.surely, facts.recorded.get(key, counted.surely)),
        last=counted.last,
        queues=(facts.queue,),
        sample=_sample(facts),
    )


def _count_new_groups(groups: Groups, at: datetime) -> int:
    since = at - NEW_FOR
    return sum(each.first_seen >= since for each in groups.get(CLASSIFIERS[0], ()))


def _count_alone(groups: Groups) -> int:
    return sum(each.count == 1 for each in groups.get(CLASSIFIERS[0], ()))


def _ids_of(groups: Groups) -> frozenset[str]:
    return frozenset(each.key for lines in groups.values() for each in lines)


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


QUICK = 0.1
"""Seconds: a count that takes no longer is made when a page asks for it."""
_FACTS_AT_ONCE = 5_000
_MOST_TOLD = 51
"""Events that an open log counts as new at most: a page of them, and one more."""
_LOOK_BACK = 1_000
"""Ids of the log that each look goes through: more than commits in the wrong order are apart."""
_LOOK_FAR_BACK = 10_000
"""The same at the start, for logs that were opened before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why the counts are not renewed, and since when, by our own clock."""

    reason: str
    since: float


class PageCounts:
    """Counts, and hands each snapshot to `publish`. Any thread may read."""

    def __init__(
        self, db: Database, clock: Clock, publish: Callable[[Snapshot, Trouble | None], str]
    ) -> None:
        self._db = db
        self._clock = clock
        self._publish = publish
        self._series = Series(db)
        self._archives = ArchiveWatch(db)
        self._messages = MessageWatch(db, clock)
        self._streams = StreamWatch(db)
        self._facts: dict[int, CauseFacts] = {}
        self._snapshot: Snapshot | None = None
        self._trouble: Trouble | None = None
        self._whole = LastCount()
        self._news = LastCount()
        self._looked_at = clock.monotonic() - WATCHED_FOR
        self._changed = False
        self._counting = threading.Lock()
        self._before: Callable[[], object] | None = None

    @property
    def trouble(self) -> Trouble | None:
        """Why the counts are old, if they could not be renewed."""
        return self._trouble

    @property
    def last(self) -> Snapshot | None:
        """The last snapshot; None before the first. Nobody needs the database for it."""
        return self._snapshot

    def snapshot(self) -> Snapshot:
        """Return the snapshot that a person sees; where counting is quick, it is made now.

        Raises DatabaseUnavailable if there is none yet.
        """
        self.note_reader()
        if self._is_to_be_made():
            with self._counting:
                if self._is_to_be_made():
                    self._try_to_count()
        found = self._snapshot
        if found is None:
            reason = "nothing was counted yet" if self._trouble is None else self._trouble.reason
            raise DatabaseUnavailable(reason)
        return found

    def note_change(self) -> None:
        """Note that a person has changed something: the next page has to show it if it can."""
        self._changed = True

    def note_reader(self) -> None:
        """Note that somebody looks: from now on the counts are renewed as often as they may be."""
        self._looked_at = self._clock.monotonic()

    def note_reader_of(self, unique_id: str) -> None:
        """Note that somebody looks at one message."""
        self.note_reader()
        self._messages.note(unique_id)

    def now(self) -> datetime:
        """Return the time of the database, as far as known without asking it."""
        found = self._snapshot
        if found is None:
            return self._clock.now()
        return found.at + timedelta(seconds=self._clock.monotonic() - found.taken)

    def age(self) -> float:
        """Return how many seconds ago the counts were made; 0 before the first."""
        found = self._snapshot
        return 0.0 if found is None else self._clock.monotonic() - found.taken

    def do_before(self, act: Callable[[], object]) -> None:
        """Have the job do this once, before it counts for the first time."""
        self._before = act

    def tick(self) -> None:
        """Count if it is time to."""
        act, self._before = self._before, None
        if act is not None:
            act()
        now = self._clock.monotonic()
        watched = now - self._looked_at < WATCHED_FOR
        whole = self._snapshot is None or self._whole.is_due(now, WATCHED if watched else UNWATCHED)
        if not whole and not (watched and self._news.is_due(now, WATCHED)):
            return
        with self._counting:
            try:
                self._count_all() if whole else self._count_new()
            except RetrierError as error:
                self._note_trouble(STARTING if isinstance(error, TablesMissing) else str(error))
                raise

    def _is_to_be_made(self) -> bool:
        if self._snapshot is None:
            return True
        old = self._changed or self._clock.monotonic() >= self._whole.ended + WATCHED.least
        return old and self._whole.cost <= QUICK and self._trouble is None

    def _try_to_count(self) -> None:
        try:
            self._count_all()
        except DatabaseUnavailable as error:
            self._note_trouble(str(error))

    def _count_all(self) -> None:
        self._changed = False
        began = self._clock.monotonic()
        found = count_unresolved(self._db)
        causes = {each.cause_id: each for each in found.causes}
        self._learn(causes)
        groups = count_groups(causes, self._facts)
        self._series.look(found.at)
        last, history = self._snapshot, read_history(self._db)
        alive = find_processor(self._db)
        shown = {each.operation_id: each for each in (*history.historic, *history.unacknowledged)}
        operations = newest({**shown, **operations_of(alive)}.values())
        found_now = Snapshot(
            at=found.at,
            taken=began,
            up_to=found.up_to,
            told=self._look_at_log(_LOOK_FAR_BACK) if last is None else last.told,
            causes=causes,
            groups=groups,
            group_ids=_ids_of(groups),
            new_groups=_count_new_groups(groups, found.at),
            alone=_count_alone(groups),
            queues=count_queues(causes, self._facts),
            others=count_others(self._db),
            minutes=self._series.minutes(),
            hours=self._series.hours(),
            marks=self._series.marks,
            work=alive,
            operations=operations,
            archives=self._archives.look(),
            breakers=show_breakers(self._db),
            streams=self._streams.look(),
            messages=self._messages.look(),
        )
        self._keep(found_now)
        done = self._done(began)
        # The first count also prepares its statements: that says nothing of the next one, and who
        # opens a page just after the start would see what was there 30 seconds ago.
        self._whole = done if last is not None else replace(done, cost=min(done.cost, QUICK))

    def _count_new(self) -> None:
        """Add what failed since the last count, and look at what is being retried."""
        last = self._snapshot
        if last is None:
            return
        began = self._clock.monotonic()
        found = count_unresolved(self._db, after=last.up_to)
        news = {each.cause_id: each for each in found.causes}
        self._learn(news)
        groups, queues = self._add_news(last, news)
        self._series.count_new_failures()
        alive = find_processor(self._db)
        found_now = replace(
            last,
            up_to=max(last.up_to, found.up_to),
            told=self._look_at_log(_LOOK_BACK),
            causes=add_causes(last.causes, found.causes) if news else last.causes,
            groups=groups,
            group_ids=_ids_of(groups) if news else last.group_ids,
            new_groups=_count_new_groups(groups, last.at) if news else last.new_groups,
            alone=_count_alone(groups) if news else last.alone,
            queues=queues,
            minutes=self._series.minutes(),
            hours=self._series.hours(),
            marks=self._series.marks,
            work=alive,
            archives=self._archives.look(),
            breakers=show_breakers(self._db),
            messages=self._messages.look(),
            operations={**last.operations, **self._ended(last, alive), **operations_of(alive)},
        )
        self._keep(found_now)
        self._news = self._done(began)

    def _add_news(
        self, last: Snapshot, news: Mapping[int, CauseCount]
    ) -> tuple[Groups, Sequence[CountLine]]:
        """Return the groups and the queues of a snapshot with what failed since it added."""
        if not news:
            return last.groups, last.queues
        groups = {
            classifier: add_lines(last.groups.get(classifier, ()), lines)
            for classifier, lines in count_groups(news, self._facts).items()
        }
        return {**last.groups, **groups}, add_lines(last.queues, count_queues(news, self._facts))

    def _look_at_log(self, look_back: int) -> tuple[int, ...]:
        """Return the ids of the newest events; what was seen before stays, however much came since.

        Each look goes back: on PostgreSQL a lower id may be committed later.
        """
        known = () if self._snapshot is None else self._snapshot.told
        found = list_newest_told(self._db, _MOST_TOLD, look_back)
        return tuple(sorted({*known, *found}, reverse=True)[:_MOST_TOLD])

    def _ended(self, last: Snapshot, alive: ProcessorState) -> Mapping[str, RetryOperation]:
        """Return the operations that were alive a moment ago as they ended."""
        gone = operations_of(last.work).keys() - operations_of(alive).keys()
        found = (find_operation(self._db, each) for each in gone)
        return {each.operation.operation_id: each.operation for each in found if each is not None}

    def _learn(self, causes: Mapping[int, CauseCount]) -> None:
        unknown = iter(causes.keys() - self._facts.keys())
        while some := list(islice(unknown, _FACTS_AT_ONCE)):
            self._facts.update(find_cause_facts(self._db, some))

    def _done(self, began: float) -> LastCount:
        ended = self._clock.monotonic()
        return LastCount(ended=ended, cost=ended - began)

    def _keep(self, found: Snapshot) -> None:
        self._trouble = None
        self._snapshot = replace(found, version=self._publish(found, None))

    def _note_trouble(self, reason: str) -> None:
        if self._trouble is None:
            self._trouble = Trouble(reason=reason, since=self._clock.monotonic())
            if self._snapshot is not None:
                self._publish(self._snapshot, self._trouble)
