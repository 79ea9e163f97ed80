"""Which lines an event produces: mostly one of the same name and fields, or none, or several."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType

from retrier.app.log.lines import LINES, Line, make_line
from retrier.domain.failed_message import FailedImport, Noteworthy, OwnCopy
from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
    RetrierError,
    StagingQueueUnusable,
)
from retrier.events.event import Event
from retrier.events.ingestion import BatchStored
from retrier.events.processor import (
    BatchAdopted,
    BatchMarked,
    BatchStaged,
    LeaseAcquired,
    RestBackedOff,
    RestMoved,
    TurnFailed,
)

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


def describe(event: Event) -> Iterator[Line]:
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


def describe_error(error: Exception) -> Line:
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


def _describe_plainly(event: Event, **more: object) -> Line:
    names = [each.name for each in fields(event)]
    given = {name: getattr(event, name) for name in names if name != "error"}
    shown = {name: value for name, value in given.items() if isinstance(value, _PLAIN)}
    return make_line(_line_name(event), error=getattr(event, "error", None), **shown, **more)


def _describe_ejected(staged: BatchStaged) -> Iterator[Line]:
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


def _describe_noteworthy(queue: str, noteworthy: Sequence[Noteworthy]) -> Iterator[Line]:
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
