"""What log and metrics are told of each message; never its body."""

from typing import assert_never

from retrier.worker.condition import LOG
from retrier.worker.copies import find_id
from retrier.worker.hand import Held
from retrier.worker.options import Metrics
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, SecondCopy


def report(metrics: Metrics | None, held: Held, ended: Ended, seconds: float) -> None:
    """Tell log and metrics what became of a message; never raises."""
    said = _describe(ended)
    if said is not None:
        LOG.warning("the message %s of %s %s", find_id(held.properties), held.delivery.queue, said)
    if metrics is None:
        return
    try:
        metrics(held.delivery.queue, name_outcome(ended), seconds)
    except Exception:  # noqa: BLE001 - whatever somebody else's code raises
        LOG.exception("the metrics function raised")


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


def _describe(ended: Ended) -> str | None:
    """Return what the log says; None for what is as it should be."""
    match ended:
        case Broken(problem):
            return f"goes to the error queue ({problem.reason}): {problem.type}"
        case Postponed(why):
            return f"has to wait, something is away: {why}"
        case SecondCopy():
            return "is the second copy of its retry, and is not handled again"
        case Done():
            return "failed by its own account" if ended.by_own_account else None
        case _ as never:
            assert_never(never)
