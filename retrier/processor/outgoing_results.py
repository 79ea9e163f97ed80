"""What follows from the outcomes of one window of copies, and which queues take none for now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from retrier.domain.wire import ChannelClosed, Confirmed, Outcome, Refused, Returned, Unknown
from retrier.events.event import Emit
from retrier.events.processor import LogQueueFailed, LogQueueRecovered
from retrier.store.outgoing import WaitingCopy

BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds to wait after the first failure in a row, the second, ...; the last one repeats."""


def back_off(failures: int) -> float:
    """Return how long to wait after so many failures in a row, 1 at least."""
    return BACK_OFF[min(failures, len(BACK_OFF)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What follows from the outcomes of a window.

    `refused` are rows to be put off, with their reasons. `missing` and `refusing` are queues that
    take nothing: the first do not exist, of the others one copy may be the cause. `suspects` is
    how many copies may have made the broker close the channel. `lost` is why the connection broke.
    """

    sent: Sequence[int]
    refused: Mapping[int, str]
    missing: Mapping[str, str]
    refusing: Mapping[str, str]
    suspects: int
    lost: str | None


def settle(copies: Sequence[WaitingCopy], outcomes: Sequence[Outcome]) -> Result:
    """Return what follows from the outcomes of these copies.

    A refused copy is put off if its queue took another one of the window, or if it was alone: it
    may be the one that can never be sent, and must not keep the others waiting. Otherwise the
    queue refuses all of them, and they keep their places.
    """
    pairs = list(zip(copies, outcomes, strict=True))
    alone = len(pairs) == 1
    ruled_out = (Refused, ChannelClosed) if alone else Refused
    not_taken = [(copy, no.reason) for copy, no in pairs if isinstance(no, ruled_out)]
    taken = [copy for copy, outcome in pairs if isinstance(outcome, Confirmed)]
    taking = {copy.queue for copy in taken}
    return Result(
        sent=[copy.outgoing_id for copy in taken],
        refused={
            copy.outgoing_id: reason for copy, reason in not_taken if alone or copy.queue in taking
        },
        missing={copy.queue: no.reason for copy, no in pairs if isinstance(no, Returned)},
        refusing={copy.queue: why for copy, why in not_taken if copy.queue not in taking},
        suspects=0 if alone else sum(isinstance(each, ChannelClosed) for each in outcomes),
        lost=next((each.reason for each in outcomes if isinstance(each, Unknown)), None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    """A queue that took nothing so many times in a row; `told` says that the log names it."""

    failures: int
    until: float
    told: bool
    reason: str


class HeldQueues:
    """The queues that are not sent to until a time; then one copy is tried, and not a window."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._holds: dict[str, _Hold] = {}

    def closed(self, now: float) -> frozenset[str]:
        """Return the queues that nothing may be sent to yet."""
        return frozenset(queue for queue, hold in self._holds.items() if hold.until > now)

    def is_any_on_trial(self, now: float) -> bool:
        """Say whether a queue is to be tried with one copy."""
        return any(hold.until <= now for hold in self._holds.values())

    def hold(self, queue: str, reason: str, now: float, *, certain: bool) -> None:
        """Send nothing to this queue for a while; `certain`: no single copy can be the cause.

        Reported once: at the second failure in a row if the first may be the fault of a copy.
        """
        before = self._holds.get(queue) or _Hold(failures=0, until=now, told=False, reason="")
        failures = before.failures + 1
        tell = certain or failures > 1
        if tell and not before.told:
            self._emit(LogQueueFailed(queue=queue, reason=reason))
        self._holds[queue] = _Hold(
            failures=failures,
            until=now + back_off(failures),
            told=before.told or tell,
            reason=reason,
        )

    def free(self, queue: str) -> None:
        """Note that this queue has taken a copy."""
        hold = self._holds.pop(queue, None)
        if hold is not None and hold.told:
            self._emit(LogQueueRecovered(queue=queue))

    def describe(self) -> str | None:
        """Say which queues take nothing, and why; None if there is none. For any thread."""
        told = [f"{queue}: {hold.reason}" for queue, hold in list(self._holds.items()) if hold.told]
        return "; ".join(told) or None

    def skip_trials(self, now: float) -> None:
        """Put trials off: no copy for these queues is due, and they must not slow the others."""
        for queue, hold in list(self._holds.items()):
            if hold.until > now:
                continue
            if hold.told:
                until = now + back_off(hold.failures)
                self._holds[queue] = replace(hold, until=until)
            else:
                del self._holds[queue]

    def forget(self) -> None:
        """Forget everything: another process sends from now on."""
        self._holds.clear()
