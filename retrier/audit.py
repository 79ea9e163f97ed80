"""Keeps what people ask for, and what is refused: before an act is done, and before it is answered.

Nothing is done before the line about it is written. Whoever wants an audit would rather have an act
refused than done without a trace.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import Enum
from functools import wraps
from inspect import signature
from threading import Lock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from retrier.clock import Clock
from retrier.domain.access import Access, How, Refusals
from retrier.domain.archive_operation import ArchiveRequest
from retrier.domain.audit import AuditOutcome, AuditRecord, AuditType
from retrier.domain.breakers import BreakerKey
from retrier.domain.edits import AskedEdit, EditRefused, EditRequest
from retrier.domain.failed_imports import (
    Doubtful,
    NotTaken,
    NotTried,
    ReadAgain,
    WrongDialect,
    WrongQueue,
)
from retrier.domain.retry_operation import (
    AskedAgain,
    RetryRequest,
    RetryTerms,
    Steered,
    hash_patch,
    hash_subject,
)
from retrier.domain.selection import Selection, bounds_of, chosen_parts
from retrier.domain.streams import NotInStream, Released, Stream, UnknownStream
from retrier.domain.text import clean
from retrier.domain.values import dataclass
from retrier.domain.views import View
from retrier.errors import DataRefused, KeyReused, NotAllowed
from retrier.store.archive import AskedArchive
from retrier.store.operation_requests import CreatedOperation

_MOST_IDS = 100
"""Ids that a line names; beyond them it says how many."""
_LONGEST_TEXT = 1024
_MOST_ADDRESSES = 1000
OTHERS = "other addresses"
"""Stands for the addresses beyond those that are counted one by one."""
TOLD_EVERY = timedelta(minutes=1)


class Journal(Protocol):
    """Where the lines are written."""

    def write(self, record: AuditRecord, *, safely: bool = True) -> int:
        """Append a line and return its number; `safely`: also a power cut leaves it there.

        Raises AuditUnavailable; then there is no such line.
        """
        ...

    def owe(self, record: AuditRecord, *, safely: bool = True) -> None:
        """Write a line, now or before the next one: what it tells has happened. Never raises."""
        ...


@dataclass(slots=True)
class _Counted:
    count: int = 0
    told_at: float | None = None


class RefusalCounts:
    """Adds up refusals, so that who guesses a thousand times a second makes one line a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, str, str], _Counted] = {}
        self._lock = Lock()

    def add(self, address: str, reason: str, who: str = "", count: int = 1) -> None:
        """Count one, or several that could not be told."""
        with self._lock:
            key = (address, reason, who)
            if key not in self._counts and len(self._counts) >= _MOST_ADDRESSES:
                key = (OTHERS, reason if who == "" else "", "")
            self._counts.setdefault(key, _Counted()).count += count

    def take_due(self, *, everything: bool = False) -> Sequence[Refusals]:
        """Return what was not told for a minute, and count it anew; what is quiet is forgotten."""
        now, found = self._clock.monotonic(), []
        with self._lock:
            for key, counted in list(self._counts.items()):
                is_due = counted.told_at is None or (
                    now - counted.told_at >= TOLD_EVERY.total_seconds()
                )
                if not (is_due or everything):
                    continue
                if counted.count == 0:
                    del self._counts[key]
                    continue
                address, reason, who = key
                found.append(Refusals(address=address, reason=reason, who=who, count=counted.count))
                counted.count, counted.told_at = 0, now
        return found


class Audit:
    """What is kept of acts and refusals. `refusals` are those that the event log is told of."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self.guesses = RefusalCounts(clock)
        """Refusals of people who are not known: a line for many."""
        self.refusals = RefusalCounts(clock)

    def begin(self, access: Access, action: str, about: Mapping[str, object]) -> int:
        """Write that somebody asks for an act; return the number of the line.

        Raises AuditUnavailable: then it must not be done.
        """
        return self._journal.write(
            AuditRecord(action=action, type=AuditType.START, access=access, about=about)
        )

    def end(self, access: Access, action: str, asked: int, ended: "Ended") -> None:
        """Write what came of it. What cannot be written now is written before the next act."""
        self._journal.owe(
            AuditRecord(
                action=action,
                type=AuditType.END,
                access=access,
                outcome=ended.outcome,
                allowed=True,
                reason=ended.reason,
                about={"asked_in": asked, **ended.about},
            )
        )

    def refuse(
        self,
        access: Access,
        action: str,
        why_not: str,
        about: Mapping[str, object] | None = None,
        *,
        asked: int | None = None,
    ) -> None:
        """Keep that somebody who is known was refused."""
        self.refusals.add(access.address, why_not, access.name)
        told = {} if asked is None else {"asked_in": asked}
        self._journal.owe(
            AuditRecord(
                action=action,
                type=AuditType.DENIED,
                access=access,
                outcome=AuditOutcome.FAILURE,
                allowed=False,
                reason=why_not,
                about={**told, **(about or {})},
            ),
            safely=False,
        )

    def note(self, access: Access, action: str, about: Mapping[str, object] | None = None) -> None:
        """Keep what has happened without an act of the gateway, such as a log-in."""
        self._journal.owe(
            AuditRecord(
                action=action,
                type=AuditType.INFO,
                access=access,
                outcome=AuditOutcome.SUCCESS,
                allowed=True,
                about=about or {},
            )
        )

    def count(self, address: str, reason: str) -> None:
        """Count that somebody unknown was refused: they write nothing, however often they try."""
        self.guesses.add(address, reason)

    def tell_guesses(self, *, everything: bool = False) -> None:
        """Write a line for each address and reason that was not told for a minute."""
        for each in self.guesses.take_due(everything=everything):
            self.refusals.add(each.address, each.reason, count=each.count)
            self._journal.owe(
                AuditRecord(
                    action="authenticate",
                    type=AuditType.DENIED,
                    outcome=AuditOutcome.FAILURE,
                    address=each.address,
                    allowed=False,
                    reason=each.reason,
                    about={"count": each.count},
                ),
                safely=False,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of an act."""

    outcome: AuditOutcome
    reason: str | None = None
    about: Mapping[str, object] = field(default_factory=dict)


class _Guard(Protocol):
    @property
    def access(self) -> Access: ...
    @property
    def audit(self) -> Audit | None: ...


class Guarded(Protocol):
    """What takes requests of somebody."""

    @property
    def guard(self) -> _Guard:
        """What knows who asks."""
        ...


G = TypeVar("G", bound=Guarded)
P = ParamSpec("P")
T = TypeVar("T")
Verb = Callable[Concatenate[G, P], T]

AUDITED = "audited"
"""The attribute of a verb that says as which action it is kept."""


def audited(action: str, *, says_why_not: bool = False) -> Callable[[Verb[G, P, T]], Verb[G, P, T]]:
    """Keep each call of a verb that changes something: a line before it, and one before its answer.

    `says_why_not`: a text that the verb returns says why it is refused. Other texts are not kept.
    """

    def decorate(verb: Verb[G, P, T]) -> Verb[G, P, T]:
        parameters = signature(verb)

        @wraps(verb)
        def keep(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
            audit, access = self.guard.audit, self.guard.access
            if audit is None or access.how is How.OPEN:
                return verb(self, *args, **kwargs)
            given = parameters.bind(self, *args, **kwargs).arguments
            named, about = _name_act(action, given.values()), describe_request(action, given)
            asked = audit.begin(access, named, about)
            try:
                answer = verb(self, *args, **kwargs)
            except NotAllowed as refusal:
                audit.refuse(access, named, str(refusal), about, asked=asked)
                raise
            except BaseException as error:
                audit.end(access, named, asked, _describe_error(error))
                raise
            ended = describe_answer(answer, says_why_not=says_why_not)
            audit.end(access, named, asked, ended)
            return answer

        setattr(keep, AUDITED, action)
        return keep

    return decorate


def audited_if_refused(action: str) -> Callable[[Verb[G, P, T]], Verb[G, P, T]]:
    """Keep a call of a verb that changes nothing, if it is refused."""

    def decorate(verb: Verb[G, P, T]) -> Verb[G, P, T]:
        parameters = signature(verb)

        @wraps(verb)
        def keep(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return verb(self, *args, **kwargs)
            except NotAllowed as refusal:
                audit, access = self.guard.audit, self.guard.access
                if audit is not None:
                    given = parameters.bind(self, *args, **kwargs).arguments
                    about = describe_request(action, given)
                    audit.refuse(access, action, str(refusal), about)
                raise

        setattr(keep, AUDITED, action)
        return keep

    return decorate


def _name_act(action: str, given: Iterable[object]) -> str:
    """Return the act itself where one verb takes several."""
    return next((str(each.act) for each in given if isinstance(each, ArchiveRequest)), action)


_NEVER = frozenset({"self", "written", "query", "token", "secret", "sha256"})
"""What people write, what they look at, and what lets somebody in: no line has it."""
_TOKEN = re.compile(r"rtr_[0-9a-f]+")


def describe_request(action: str, given: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a verb was called with, as far as it is known to hold no data of messages."""
    about: dict[str, object] = {}
    for name, value in given.items():
        match value:
            case _ if name in _NEVER:
                continue
            case RetryRequest():
                about |= _of_selection(action, value.selection)
                about |= _terms(value.terms)
                about |= _texts(asked_by=value.requested_by, why=value.why, asked=value.originator)
            case ArchiveRequest():
                about |= _of_selection(value.act, value.selection)
                about |= _texts(asked_by=value.requested_by, why=value.why, asked=value.originator)
                about |= _texts(undo_of=value.undo_of)
            case Selection():
                about |= _of_selection(action, value)
            case EditRequest():
                about |= _ids("ids", [value.unique_message_id])
                about |= _texts(asked_by=value.who, why=value.why)
            case View():
                about |= _texts(name=value.name, page=value.page.value)
            case Stream():
                about |= _texts(queue=value.queue, stream=value.stream_id)
            case BreakerKey():
                about |= _texts(breaker=str(value))
            case _:
                about |= _of_value("asked_by" if name == "who" else name, value)
    return about


def _of_value(name: str, value: object) -> Mapping[str, object]:
    if isinstance(value, list | tuple):
        return _of_list(name, value)
    match value:
        case Enum():
            return {name: str(value.value)}
        case bool() | int() | float():
            return {name: value}
        case str():
            return _texts(**{name: value})
        case datetime():
            return {name: value.isoformat()}
        case timedelta():
            return {name: value.total_seconds()}
        case _:
            return {}


def _of_list(name: str, values: Sequence[object]) -> Mapping[str, object]:
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) == len(values):
        return _ids(name, texts)
    if all(isinstance(each, int) for each in values):
        return {f"{name}_count": len(values)}
    return {name: [_order(each) for each in values]}


def _order(order: object) -> object:
    """Return an order to an operation in words: `pause`, `setrate 50`."""
    name = type(order).__name__.lower()
    rate = getattr(order, "rate", None)
    return name if rate is None else f"{name} {rate}"


def _of_selection(act: str, selection: Selection) -> Mapping[str, object]:
    bounds = bounds_of(selection)
    told: dict[str, object] = {**chosen_parts(selection)}
    if selection.ids is not None:
        told |= _ids("ids", selection.ids)
    if selection.pending:
        told["pending"] = True
    if "within" in bounds:
        told["within"] = bounds["within"]
    about: dict[str, object] = {"selection": {n: _short(each) for n, each in told.items()}}
    if selection.counted_to is not None:
        # The hash of the plan that was shown: who approves it approves this.
        unbound = replace(selection, within=None)
        about["plan"] = {
            "hash": hash_subject(act, unbound),
            "counted_to": selection.counted_to,
            "passed_over": len(selection.passed_over),
        }
    return about


def _terms(terms: RetryTerms) -> Mapping[str, object]:
    told = {
        "limit": terms.limit,
        "destination": terms.destination,
        "rate": terms.rate,
        "canary": None if terms.canary is None else terms.canary.size,
        "not_before": None if terms.not_before is None else terms.not_before.isoformat(),
        # Not the patch: it holds what bodies and headers are to hold.
        "patch_sha256": None if terms.patch is None else hash_patch(terms.patch),
    }
    found = {name: value for name, value in told.items() if value is not None}
    return {"terms": found} if found else {}


def _ids(name: str, ids: Sequence[str]) -> Mapping[str, object]:
    named = [_short(each) for each in ids[:_MOST_IDS]]
    return {name: named} if len(ids) <= _MOST_IDS else {name: named, f"{name}_count": len(ids)}


def _texts(**texts: str | None) -> Mapping[str, object]:
    return {name: _short(text) for name, text in texts.items() if text is not None}


def _short(value: object) -> object:
    return _plain(value) if isinstance(value, str) else value


def _plain(text: str) -> str:
    # Somebody may have written one where a name or a reason belongs.
    return clean(_TOKEN.sub("rtr_...", text), _LONGEST_TEXT)


def _describe_error(error: BaseException) -> Ended:
    """Return what came of an act that failed. Most errors leave open whether it was done."""
    nothing_done = isinstance(error, (KeyReused, DataRefused))
    outcome = AuditOutcome.FAILURE if nothing_done else AuditOutcome.UNKNOWN
    return Ended(outcome=outcome, reason=type(error).__name__)


def describe_answer(answer: object, *, says_why_not: bool = False) -> Ended:
    """Return what came of an act: a refusal is a value here, and makes it a failure."""
    if isinstance(answer, Doubtful):
        return Ended(outcome=AuditOutcome.UNKNOWN, reason=_plain(answer.reason))
    why_not = _why_not(answer, says_why_not=says_why_not)
    if why_not is not None:
        return Ended(outcome=AuditOutcome.FAILURE, reason=_plain(why_not))
    return Ended(outcome=AuditOutcome.SUCCESS, about=_about_answer(answer))


def _why_not(answer: object, *, says_why_not: bool) -> str | None:
    match answer:
        case Enum():
            return str(answer.value)
        case str():
            return answer if says_why_not else None
        case NotTaken() | NotTried() | WrongQueue() | WrongDialect():
            return answer.reason
        case EditRefused():
            return str(answer)
        case UnknownStream() | NotInStream():
            return type(answer).__name__
        case _:
            return None


def _about_answer(answer: object) -> Mapping[str, object]:
    about: Mapping[str, object] = {}
    match answer:
        case bool():
            about = {"changed": answer}
        case CreatedOperation():
            about = {
                "operation_id": answer.operation_id,
                "messages": answer.total,
                "repeated": answer.repeated,
                "skipped_count": len(answer.skipped),
            }
        case AskedArchive():
            about = {
                "operation_id": answer.operation.operation_id,
                "messages": answer.operation.total,
                "repeated": answer.repeated,
                "skipped_count": answer.not_yours,
            }
        case AskedAgain():
            about = {**_ids("operation_ids", answer.operation_ids), "messages": answer.total}
        case AskedEdit():
            about = {
                "operation_id": answer.operation_id,
                "edit_id": answer.edit_id,
                "asks_for_approval": answer.is_asking,
            }
        case Steered():
            about = {"operation_id": answer.operation_id, "changed": answer.changed}
        case Released():
            about = {"messages": len(answer.ids)}
        case ReadAgain():
            about = {
                "became": {str(each): number for each, number in answer.became.items()},
                "kept_count": answer.kept.total(),
                "refused_count": answer.refused.total(),
            }
        case _:
            pass
    return about
