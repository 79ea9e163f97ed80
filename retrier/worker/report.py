"""What log and metrics are told of each message; never its body."""

from logging import INFO, WARNING
from typing import assert_never

from retrier.worker.condition import LOG
from retrier.worker.copies import find_id
from retrier.worker.hand import Held
from retrier.worker.options import Metrics
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, SecondCopy

_EVENTS = {Done: "message.handled", Broken: "message.failed", Postponed: "message.postponed"}
_SECOND_COPY = "message.second_copy"


def report(
    metrics: Metrics | None,
    held: Held,
    ended: Ended,
    seconds: float,
    breaker: str | None = None,
) -> None:
    """Tell log and metrics what became of a message; never raises. `breaker` is its state."""
    level = INFO if isinstance(ended, Done) and not ended.by_own_account else WARNING
    # Most applications do not log at INFO: a line per success is not even made then.
    if LOG.isEnabledFor(level):
        LOG.log(
            level,
            "the message %s of %s %s",
            find_id(held.properties),
            held.delivery.queue,
            _describe(ended, seconds),
            extra=_fields(held, ended, seconds) | ({} if breaker is None else {"breaker": breaker}),
        )
    if metrics is None:
        return
    try:
        metrics(held.delivery.queue, name_outcome(ended), seconds)
    except Exception:  # noqa: BLE001 - whatever somebody else's code raises
        LOG.exception("the metrics function raised")


def _fields(held: Held, ended: Ended, seconds: float) -> dict[str, object]:
    """Return what the line is made of, for whoever formats lines by fields."""
    told: dict[str, object] = {
        "event": _EVENTS.get(type(ended), _SECOND_COPY),
        "message_id": find_id(held.properties),
        "queue": held.delivery.queue,
        "outcome": name_outcome(ended),
        "attempt": held.starts + 1,
        "duration_ms": round(seconds * 1000),
    }
    match ended:
        case Done(attempts=attempts):
            told["attempt"] = held.starts + attempts
        case Broken(problem, attempts):
            told |= {"attempt": attempts, "reason": problem.reason.value, "exception": problem.type}
        case Postponed(why):
            told["exception"] = why
        case SecondCopy():
            pass
        case _ as never:
            assert_never(never)
    return told


def name_outcome(ended: Ended) -> str:
    """Return the word for the metrics function."""
    match ended:
        case Done():
            return "failure" if ended.by_own_account else "success"
        case Broken(problem):
            return problem.reason.value
        case Postponed():
            return "transient"
        case SecondCopy():
            return "second_copy"
        case _ as never:
            assert_never(never)


def _describe(ended: Ended, seconds: float) -> str:
    match ended:
        case Broken(problem):
            return f"goes to the error queue ({problem.reason}): {problem.type}"
        case Postponed(why):
            return f"has to wait, something is away: {why}"
        case SecondCopy():
            return "is the second copy of its retry, and is not handled again"
        case Done():
            said = "failed by its own account" if ended.by_own_account else "was handled"
            return f"{said} in {seconds:.3f} s"
        case _ as never:
            assert_never(never)
