"""The log: which lines an event produces, with which words, and how they are written.

Fields are names, ids, counts and reasons: never a body, a header's value or a secret. A line about
an operation, a batch or a message has `operation_id`, `batch_id` or `unique_message_id`.

Every value of a line is cleaned, also those from libraries. Removed are line breaks, passwords in
URLs, and the text of exceptions that may quote a part of a message.
"""

import logging
import re
import sys
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from threading import Lock
from types import MappingProxyType
from typing import Generic, Literal, Protocol, Self, TextIO, TypeVar

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from retrier.clock import Clock
from retrier.domain.decision import Decided
from retrier.domain.failed_message import Disposition, FailedImport, Noteworthy, OwnCopy
from retrier.domain.recording import Recorded
from retrier.domain.retry_batch import Ejected
from retrier.domain.values import dataclass
from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
    RetrierError,
    StagingQueueUnusable,
)
from retrier.events.event import Event
from retrier.events.ingestion import BatchStored, StoredAlone
from retrier.events.processor import (
    BatchAdopted,
    BatchMarked,
    BatchStaged,
    LeaseAcquired,
    LeaseReleased,
    RestBackedOff,
    RestMoved,
    TurnFailed,
    WindowRecorded,
)
from retrier.events.service import ServiceStopped

Form = Literal["auto", "console", "json"]
"""`console`: lines for people; `json`: one object per line; `auto`: console on a terminal."""

_LONGEST_VALUE = 500
_LONGEST = {"event": 2000}
"""Longest values of fields that differ from _LONGEST_VALUE; `event` is the sentence of a line."""

# Texts of these are logged. Other exceptions may quote data: a header's value, a row, a password.
# RetrierErrors are worded by us; the other two name only types and attributes of the code.
_QUOTE_NOTHING = (RetrierError, TypeError, AttributeError)

_CAUSED_BY = "\n\nThe cause of the above:\n\n"
_OF_A_SENTENCE = ("timestamp", "level", "message", "logger", "exception")
"""What a person reads: the sentence names the fields that matter."""
_KEPT = frozenset({"exc_info", "_record", "_from_structlog"})
_PASSWORD = re.compile(
    r"(://[^:/@\s]*):\S*@"
    r"|(\b(?:\w*password|\w*secret|scram_\w+_key)\s*=\s*)(?:'[^']*'|[^\s&]+)",
    re.IGNORECASE,
)


def finish(stream: TextIO, form: Form, level: int) -> list[Processor]:
    """Return the last processors of every structlog chain: they turn the fields into a line.

    For people a line is its sentence alone, unless the level is that of debugging.
    """
    rename = structlog.processors.EventRenamer("message", "_name")
    for_people = stream.isatty() if form == "auto" else form == "console"
    if not for_people:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        return [_tidy, _add_exception, stamp, rename, structlog.processors.JSONRenderer()]
    stamp = structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%SZ", utc=True)
    shorten = [] if level <= logging.DEBUG else [_keep_sentence]
    return [_tidy, _add_exception, stamp, rename, *shorten, _console(stream)]


def show(value: object, longest: int = _LONGEST_VALUE) -> object:
    """Return a value in a form that a line may contain."""
    if value is None or isinstance(value, bool | int | float):
        return value
    # Reasons come from brokers and messages: line breaks and control codes are removed, and the
    # length is bounded. Passwords are masked before the cut, which could leave half of one.
    text = _PASSWORD.sub(_mask, str(value)[: 4 * longest])
    text = "".join(c if c.isprintable() else " " for c in text[: longest + 1])
    return text if len(text) <= longest else text[:longest] + "..."


def _mask(found: re.Match[str]) -> str:
    address, name = found.groups()
    return f"{address}:***@" if address is not None else f"{name}***"


def _console(stream: TextIO) -> Processor:
    # The exception is already text here; any formatter except the plain one warns about that.
    return structlog.dev.ConsoleRenderer(
        event_key="message",
        pad_event_to=0,
        colors=stream.isatty(),
        exception_formatter=structlog.dev.plain_traceback,
    )


def _tidy(_logger: object, _method: str, line: EventDict) -> EventDict:
    return {
        name: value if name in _KEPT else show(value, _LONGEST.get(name, _LONGEST_VALUE))
        for name, value in line.items()
    }


def _keep_sentence(_logger: object, _method: str, line: EventDict) -> EventDict:
    return {name: line[name] for name in _OF_A_SENTENCE if name in line}


def _add_exception(_logger: object, _method: str, line: EventDict) -> EventDict:
    error = _find_exception(line.pop("exc_info", None))
    return line if error is None else {**line, "exception": _trace(error)}


def _find_exception(exc_info: object) -> BaseException | None:
    """Return the exception of `exc_info` in any of the three forms that logging allows."""
    match exc_info:
        case BaseException() as error:
            return error
        case (_, BaseException() as error, _):
            return error
        case True:
            return sys.exception()
        case _:
            return None


def _trace(error: BaseException) -> str:
    """Return where an exception and its causes were raised, without local variables."""
    return _CAUSED_BY.join(
        "".join(traceback.format_tb(each.__traceback__)) + _name(each) for each in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _name(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {show(error)}" if isinstance(error, _QUOTE_NOTHING) else kind


@dataclass(frozen=True, slots=True)
class Wording:
    """The level of one line and its sentence, in which fields stand in braces."""

    level: int
    sentence: str


def _info(sentence: str) -> Wording:
    return Wording(logging.INFO, sentence)


def _warning(sentence: str) -> Wording:
    return Wording(logging.WARNING, sentence)


def _error(sentence: str) -> Wording:
    return Wording(logging.ERROR, sentence)


LINES: Mapping[str, Wording] = {
    "service.starting": _info("Retrier {version} is starting as {instance}, roles: {roles}"),
    "service.default_database": _info(
        "no database is named: the default is used, the file {place}"
    ),
    "service.knob_used": _info("{variable} is used for {setting}"),
    "service.places": _info("Broker: {broker}; database: {database}"),
    "service.promises": _info("These promises hold with {broker}: {promises}"),
    "service.promises_not_kept": _warning("These promises do not hold with {broker}: {promises}"),
    "service.broker_warned": _warning("The broker: {warning}"),
    "service.started": _info("Retrier is up"),
    "service.part_failed": _error("Unexpected error: {part} has stopped working"),
    "service.stopping": _info("Retrier is stopping: {reason}"),
    "service.stopped": _info("Retrier has stopped"),
    "database.unreachable": _error("Waiting for the database: {reason}"),
    "database.reached": _info("The database is back"),
    "database.sessions_ended": _warning(
        "Ended database sessions of a frozen or lost process that were holding locks: {count}"
    ),
    "database.notifications_missing": _warning("Notifications of the database: {reason}"),
    "database.notifications_back": _info("Notifications of the database arrive"),
    "processes.differ": _warning("Processes that use this database differ: {reason}"),
    "processes.agree": _info("All processes have the same version, policies and error queues"),
    "broker.unreachable": _error("Waiting for the broker: {reason}"),
    "broker.reached": _info("The broker is back"),
    "ingestion.started": _info("Ingestion from {queue} started"),
    "ingestion.paused": _warning("Ingestion from {queue} paused: {reason}"),
    "ingestion.resumed": _info("Ingestion from {queue} resumed"),
    "ingestion.failed_import": _warning(
        "Kept as failed imports from {queue}: {count}; they cannot be understood: {reason}"
    ),
    "ingestion.own_copy": _warning(
        "Dropped copies from the staging queue that arrived on {queue}: {count}; a dead-"
        "letter or expiry policy of the broker sends them there"
    ),
    "ingestion.copy_of_another": _warning(
        "Dropped copies of the Retrier installation {installation_id} that arrived on "
        "{queue}: {count}; a dead-letter or expiry policy of the broker sends them there"
    ),
    "ingestion.delivery_limit": _warning(
        "Failed messages may leave {queue} before they are stored; {reason}. Remove the limit"
    ),
    "ingestion.queue_missing": _error(
        "The error queue {queue} does not exist: the broker drops what is dead-lettered to it. "
        "Declare it, or set ingestion.declare_missing"
    ),
    "ingestion.queue_doubtful": _warning("{reason}"),
    "processor.waiting_for_lease": _info("Standing by: process {pid} on {host} is the processor"),
    "processor.lease_acquired": _info("This process is now the processor (epoch {epoch})"),
    "processor.lease_lost": _warning("Lost the processor lease: {reason}"),
    "processor.gave_way": _warning(
        "Gave up the processor lease so that another process can take it: {reason}"
    ),
    "processor.lease_held_long": _warning(
        "A transaction ({verb}) held the lease for {seconds} s: nothing else was sent meanwhile. "
        "Of its {statements} statements the slowest took {slowest_seconds} s: {slowest}"
    ),
    "processor.turn_failed": _error("Unexpected error in the processor: {error}"),
    "processor.backing_off": _warning("The processor is waiting before its next attempt: {reason}"),
    "processor.recovered": _info("The processor is working again"),
    "batch.marked": _info("Batch {batch_id} is marked, messages: {size}"),
    "batch.adopted": _warning(
        "Adopted batch {batch_id}, which a stop or an error had left in Marking, messages: {size}; "
        "without any it is deleted"
    ),
    "batch.staged": _info("Batch {batch_id} is staged, messages: {size}"),
    "batch.forwarding": _info("Batch {batch_id} is being forwarded"),
    "batch.forwarded": _info("Batch {batch_id} is forwarded"),
    "batch.sent_again": _warning(
        "Sending messages of batch {batch_id} again that were in doubt after a crash or a lost "
        "connection: {count}; they may arrive twice"
    ),
    "batch.moved": _warning(
        "What was not forwarded of batch {batch_id} moves to batch {new_batch_id}, messages: "
        "{size}; {reason}"
    ),
    "batch.backing_off": _warning("Batch {batch_id} is waiting: {reason}"),
    "message.reverted": _warning(
        "Unresolved again after a retry to {destination}: {count}, for example "
        "{unique_message_id}: {reason}"
    ),
    "message.ejected": _warning(
        "Taken out of batch {batch_id}: {count}, for example {unique_message_id}: {reason}"
    ),
    "policies.scheduled": _info(
        "Policy {policy} retries messages by itself that failed: {count}; by reason: {reasons}"
    ),
    "policies.dead": _warning(
        "Policy {policy} has given up messages: {count}; by reason: {reasons}"
    ),
    "retries.presumed": _info(
        "Presumed to have succeeded, because their retries were sent long ago and did not come "
        "back: {count}"
    ),
    "breaker.opened": _warning("A breaker has opened: {words}"),
    "breaker.half_opened": _info("A breaker lets one message go: {words}"),
    "breaker.closed": _info("A breaker has closed: {words}"),
    "breaker.hand_ended": _info("The time of a breaker set by hand is over: {words}"),
    "breaker.set": _info("A breaker was set by hand: {words}"),
    "staging.held_back": _info(
        "Taken out of batch {batch_id} because a breaker has opened, messages: {size}"
    ),
    "operation.completed": _info("Operation {operation_id} is complete"),
    "operation.paused": _info("Operation {operation_id} is paused: nothing more is cut off it"),
    "operation.resumed": _info("Operation {operation_id} goes on"),
    "approval.asked": _info(
        "Operation {operation_id} waits for approval by a second person, messages: {total}"
    ),
    "approval.decided": _info("A second person decided about operation {operation_id}: {verdict}"),
    "approval.lapsed": _warning("Nobody approved operation {operation_id} in time: it ends"),
    "operation.cancel_asked": _info("Operation {operation_id} is to be cancelled"),
    "operation.cancelled": _info("Operation {operation_id} is cancelled"),
    "operation.rate_changed": _info("Operation {operation_id} sends {rate}"),
    "canary.sent": _info(
        "The first messages of operation {operation_id} are sent; it waits for what comes back"
    ),
    "canary.passed": _info(
        "Of the first {sent} messages of operation {operation_id} {came_back} came back: it goes on"
    ),
    "canary.failed": _warning(
        "Of the first {sent} messages of operation {operation_id} {came_back} came back: it is "
        "paused until somebody resumes or cancels it"
    ),
    "archive.asked": _info(
        "Asked to {act} messages: {total}; operation {operation_id} does it chunk by chunk"
    ),
    "archive.completed": _info("Operation {operation_id} ({act}) is complete"),
    "archive.paused": _warning(
        "Archiving, unarchiving and resolving many messages paused: {reason}"
    ),
    "archive.resumed": _info("Archiving, unarchiving and resolving many messages resumed"),
    "policies.taken": _info("The policies of {file} are in force: set {set_hash}, rules: {rules}"),
    "policies.wrong": _warning(
        "The policies of {file} are wrong, and those before them stay in force: {reason}"
    ),
    "policies.right": _info("The policies of {file} are right again, and in force: set {set_hash}"),
    "outgoing.paused": _warning("Sending copies of failures and notices paused: {reason}"),
    "outgoing.resumed": _info("Sending copies of failures and notices resumed"),
    "outgoing.queue_failed": _warning(
        "{queue} takes no copies or notices: {reason}; they are kept and sent later"
    ),
    "outgoing.queue_recovered": _info("{queue} takes copies or notices again"),
    "outgoing.put_off": _warning(
        "Copies or notices that {queue} did not take: {count}; they are tried again every "
        "minute: {reason}"
    ),
    "request.refused": _info("{method} {path} was refused ({status}): {reason}"),
    "edit.asked": _info("Asked to edit {unique_message_id}: operation {operation_id} sends it"),
    "edit.recorded": _info("An edited message was sent: operation {operation_id}"),
    "dead.declared": _info("{unique_message_id} is declared dead"),
    "retention.swept": _info(
        "Deleted for their age: messages {messages}, operations {operations}, failed imports "
        "{imports}"
    ),
    "stream.released": _info(
        "Released of stream {stream_id} of {queue}, messages: {count}; they no longer wait for "
        "earlier ones"
    ),
    "staging.renewed": _warning("Deleting the staging queue and declaring it again: {reason}"),
    "staging.unusable": _error("The staging queue cannot be used: {reason}"),
    "api.certificate_renewed": _info("The certificate of the API was read again"),
    "api.certificate_refused": _warning(
        "The certificate of the API cannot be used as it is now, and the one before goes on: {reason}"
    ),
    "api.listening": _info("The API is listening on {host} port {port}. Open {page}"),
    "health.listening": _info("Health and metrics are available on {host} port {port}"),
    "health.not_listening": _warning("Health and metrics are not available: {reason}"),
    "subscriber.failed": _error(
        "Counting, tracing or logging failed: {error}; retries are not affected"
    ),
    "tracing.unavailable": _warning("Traces are configured but cannot be sent: {reason}"),
    "audit.failed": _error(
        "The audit cannot be written: {reason}. Whatever is asked for is refused until it can"
    ),
    "audit.recovered": _info("The audit can be written again"),
    "audit.torn": _warning(
        "Behind the last line of the audit in {place} stood the rest of one, of {size} bytes, that a "
        "crash or a full disk had ended: the next line names it"
    ),
    "tick.failed": _error("The recurring task {tick} failed: {reason}"),
    "tick.recovered": _info("The recurring task {tick} is working again"),
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line to be written; of `error` the place where it was raised is shown, too."""

    name: str
    fields: Mapping[str, object]
    error: Exception | None = None


def make_line(name: str, /, error: Exception | None = None, **fields: object) -> LogLine:
    """Return the line of this name; an error adds its type. Raises KeyError if not in LINES."""
    if name not in LINES:
        raise KeyError(name)
    named = {} if error is None else {"error": type(error).__name__}
    return LogLine(name, {**named, **fields}, error)


def put_into_words(line: LogLine) -> str:
    """Return the sentence of a line; `?` stands for a field that is not given."""
    shown = {name: show(value) for name, value in line.fields.items()}
    return LINES[line.name].sentence.format_map(_Shown(shown))


class _Shown(dict[str, object]):
    """The fields for a sentence. A missing field gives `?`: logging must not fail at run time."""

    def __missing__(self, _field: str) -> str:
        return "?"


_EVERY = 60.0
"""Seconds between two lines about one key."""


class _Summed(Protocol):
    """What can be added up until it is told."""

    def __add__(self, other: Self, /) -> Self: ...


Key = TypeVar("Key")
Counted = TypeVar("Counted", bound=_Summed)


class Paced(ABC, Generic[Key, Counted]):
    """Adds up per key what is new, and logs it at most once a minute.

    A flood must not fill the log as well. A key is forgotten after a minute without news.
    """

    def __init__(self, write: Callable[[LogLine], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._lock = Lock()
        self._logged_at: dict[Key, float] = {}
        self._news: dict[Key, Counted] = {}

    def write_due(self) -> None:
        """Log the keys that were not logged for a minute."""
        now = self._clock.monotonic()
        self._log_those(lambda logged_at: logged_at is None or now - logged_at >= _EVERY)

    def write_all(self) -> None:
        """Log all counts, due or not: this process will count no more."""
        self._log_those(lambda _logged_at: True)

    @abstractmethod
    def _describe(self, key: Key, counted: Counted) -> LogLine:
        """Put what is new of a key into a line."""

    def _count(self, news: Iterable[tuple[Key, Counted]]) -> None:
        with self._lock:
            for key, counted in news:
                before = self._news.get(key)
                self._news[key] = counted if before is None else before + counted

    def _log_those(self, wanted: Callable[[float | None], bool]) -> None:
        # Locked: any thread that emits an event may be here.
        with self._lock:
            keys = self._logged_at | self._news
            due = [key for key in keys if wanted(self._logged_at.get(key))]
            lines = [line for key in due for line in self._end(key)]
        for line in lines:
            self._write(line)

    def _end(self, key: Key) -> Iterator[LogLine]:
        """Yield the line of a key and restart its count; forget it if nothing is new."""
        self._logged_at.pop(key, None)
        if key in self._news:
            self._logged_at[key] = self._clock.monotonic()
            yield self._describe(key, self._news.pop(key))


_TOLD = frozenset({Disposition.SCHEDULED, Disposition.DEAD})

DecidedBy = tuple[Disposition, str]


class Decisions(Paced[DecidedBy, Counter[str]]):
    """Logs what each rule has decided, and how many messages for which reason."""

    def add(self, event: Event) -> None:
        """Count what is decided in the transaction of this event, if it has decided anything."""
        told = [each for each in _decided_in(event) if each.disposition in _TOLD]
        self._count(
            ((each.disposition, each.policy or "none"), Counter(each.reasons)) for each in told
        )

    def _describe(self, key: DecidedBy, counted: Counter[str]) -> LogLine:
        disposition, policy = key
        reasons = ", ".join(f"{reason} {count}" for reason, count in counted.most_common())
        count = counted.total()
        if disposition is Disposition.DEAD:
            return make_line("policies.dead", policy=policy, count=count, reasons=reasons)
        return make_line("policies.scheduled", policy=policy, count=count, reasons=reasons)


def _decided_in(event: Event) -> Iterable[Decided]:
    match event:
        case BatchStored(recorded=Recorded(decided=decided)):
            return decided
        case StoredAlone(recorded=Recorded(decided=decided)):
            return decided
        case WindowRecorded(decided=decided) | BatchStaged(decided=decided):
            return decided
        case _:
            return ()


_PLAIN = (str, int, float, bool, type(None))
"""Types of values that a line shows; an event may have others, for other subscribers."""

OTHER_NAMES: Mapping[type[Event], str] = MappingProxyType(
    {
        BatchAdopted: "batch.adopted",
        BatchMarked: "batch.marked",
        BatchStaged: "batch.staged",
        RestMoved: "batch.moved",
        LeaseAcquired: "processor.lease_acquired",
    }
)
"""Lines with another name than their event, which has the name of a crash point."""

_NOT_GIVEN_BACK = (
    "did not come back from the staging queue: it was emptied or deleted, somebody else consumes "
    "it, or a policy limits it"
)


def describe(event: Event) -> Iterator[LogLine]:
    """Yield the lines of an event; none if it is of no use to an operator."""
    match event:
        case BatchStored(queue=queue, noteworthy=noteworthy):
            yield from _describe_noteworthy(queue, noteworthy)
        case BatchStaged():
            yield _describe_plainly(event)
            yield from _describe_ejected(event)
        case RestMoved(new_batch_id=None) | RestBackedOff(repeated=True):
            return
        case RestMoved(size=size, message_count=count):
            reason = f"{size} of {count} copies {_NOT_GIVEN_BACK}"
            yield _describe_plainly(event, reason=reason)
        case RestBackedOff(batch_id=batch_id, operation_id=operation_id, reason=reason):
            yield make_line(
                "batch.backing_off", batch_id=batch_id, operation_id=operation_id, reason=reason
            )
        case TurnFailed(error=error):
            yield describe_error(error)
        case _:
            if _line_name(event) in LINES:
                yield _describe_plainly(event)


def describe_error(error: Exception) -> LogLine:
    """Return the line of an error that ended a turn of the processor."""
    reason = str(error)
    match error:
        case BrokerUnavailable():
            return make_line("broker.unreachable", reason=reason)
        case DatabaseUnavailable():
            return make_line("database.unreachable", reason=reason)
        case StagingQueueUnusable():
            return make_line("staging.unusable", reason=reason)
        case LeaseLost():
            return make_line("processor.lease_lost", reason=reason)
        case RetrierError():
            return make_line("processor.backing_off", reason=reason)
        case _:
            return make_line("processor.turn_failed", error=error)


def _line_name(event: Event) -> str:
    return OTHER_NAMES.get(type(event), event.name)


def _describe_plainly(event: Event, **more: object) -> LogLine:
    names = [each.name for each in fields(event)]
    given = {name: getattr(event, name) for name in names if name != "error"}
    shown = {name: value for name, value in given.items() if isinstance(value, _PLAIN)}
    return make_line(_line_name(event), error=getattr(event, "error", None), **shown, **more)


def _describe_ejected(staged: BatchStaged) -> Iterator[LogLine]:
    """Yield one line for each reason, with one message as an example."""
    counts = Counter(item.reason for item in staged.ejected)
    examples = {item.reason: item for item in reversed(staged.ejected)}
    for reason, count in counts.items():
        yield make_line(
            "message.ejected",
            unique_message_id=examples[reason].unique_message_id,
            count=count,
            batch_id=staged.batch_id,
            operation_id=staged.operation_id,
            reason=reason,
        )


def _describe_noteworthy(queue: str, noteworthy: Sequence[Noteworthy]) -> Iterator[LogLine]:
    """Yield one line for each reason: many messages must not make many lines."""
    reasons = Counter(each.reason for each in noteworthy if isinstance(each, FailedImport))
    for reason, count in sorted(reasons.items()):
        yield make_line("ingestion.failed_import", queue=queue, reason=reason, count=count)
    makers = Counter(each.of_another for each in noteworthy if isinstance(each, OwnCopy))
    if ours := makers.pop(None, 0):
        yield make_line("ingestion.own_copy", queue=queue, count=ours)
    for other, count in sorted(makers.items(), key=str):
        yield make_line(
            "ingestion.copy_of_another", queue=queue, count=count, installation_id=other
        )


@dataclass(frozen=True, slots=True)
class _Reverted:
    """How many messages of a destination were reverted, and the first of them as an example."""

    window: WindowRecorded
    item: Ejected
    count: int = 1

    def __add__(self, other: "_Reverted") -> "_Reverted":
        return replace(self, count=self.count + other.count)


class Reverts(Paced[str, _Reverted]):
    """Logs reverted messages per destination: the reason of each message is in the database."""

    def add(self, window: WindowRecorded) -> None:
        """Count the messages of one window that are recorded as reverted."""
        self._count((item.destination, _Reverted(window, item)) for item in window.result.reverted)

    def _describe(self, key: str, counted: _Reverted) -> LogLine:
        return make_line(
            "message.reverted",
            destination=key,
            count=counted.count,
            unique_message_id=counted.item.unique_message_id,
            batch_id=counted.window.batch_id,
            operation_id=counted.window.operation_id,
            reason=counted.item.reason,
        )


class LineWriter:
    """Writes lines to one stream, in one form, from one level on."""

    def __init__(self, stream: TextIO, form: Form = "auto", level: int = logging.INFO) -> None:
        self._logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=[structlog.processors.add_log_level, *finish(stream, form, level)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def write(self, line: LogLine) -> None:
        """Write one line."""
        error = {} if line.error is None else {"exc_info": line.error}
        bound = self._logger.bind(**line.fields, **error, _name=line.name)
        # A log that cannot be written (closed pipe, full disk) must not stop a retry half-way.
        with suppress(OSError, ValueError):
            bound.log(LINES[line.name].level, put_into_words(line))


class Log:
    """A subscriber to all events that writes those of use to an operator."""

    def __init__(self, write: Callable[[LogLine], None], clock: Clock) -> None:
        self._write = write
        self._reverts = Reverts(write, clock)
        self._decisions = Decisions(write, clock)

    def __call__(self, event: Event) -> None:
        """Write the lines of one event."""
        for line in describe(event):
            self._write(line)
        self._decisions.add(event)
        match event:
            case WindowRecorded():
                self._reverts.add(event)
            case LeaseReleased() | ServiceStopped():
                self._reverts.write_all()
                self._decisions.write_all()
            case _:
                pass
        self._reverts.write_due()
        self._decisions.write_due()


def adopt_standard_logging(
    stream: TextIO, logger: logging.Logger, form: Form = "auto", level: int = logging.WARNING
) -> None:
    """Let a standard logger (the root for all libraries) write its warnings in the same form."""
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *finish(stream, form, level),
        ],
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(max(level, logging.WARNING))
    # It warns of an error that follows another one, as when a transaction ends whose connection
    # broke: the first one is raised, and told in a line of ours.
    logger.getChild("psycopg").setLevel(logging.ERROR)
