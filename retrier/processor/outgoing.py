"""Sends copies of failures to the log queue, and notices of dead messages: a loop of its own.

At least once: a row is deleted after the broker has confirmed its copy. A process that dies in
between leaves the row, and the next one sends the copy again. It has connections of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate, takewhile

from retrier.domain.copies import PROBE_BODY, make_logged, make_notice_body, make_notice_properties
from retrier.domain.values import dataclass
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
    UnreadableProperties,
)
from retrier.errors import BrokerUnavailable, DatabaseUnavailable, LeaseLost, RetrierError
from retrier.events.event import Emit
from retrier.events.processor import (
    LogQueueFailed,
    LogQueueRecovered,
    OutgoingPaused,
    OutgoingPublished,
    OutgoingPutOff,
    OutgoingResumed,
)
from retrier.processor.lease import HolderContext
from retrier.store.outgoing import (
    WaitingCopy,
    find_outgoing,
    load_contents,
    load_exceptions,
    settle_outgoing,
)
from retrier.transport.seam import Publisher, Transport

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


LOOK = 1.0
"""Seconds between two looks while nothing waits, or while another process is the processor."""
REFUSED_WAIT = timedelta(minutes=1)
"""How long a copy that was refused waits; those behind it do not wait for it."""
_DELETED = "the failure that it is a copy of was deleted"


class _Stopped(Exception):
    """The service stops while the broker has not confirmed everything."""


class OutgoingSender:
    """Sends what waits in `outgoing`, in its order, while this process holds the lease.

    One thread runs it. Ingestion and retries never wait for it.
    """

    def __init__(
        self,
        context: HolderContext,
        transport: Transport,
        window: int = 200,
        window_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        """The context's database has a connection of its own. Both numbers bound a window."""
        self._context = context
        self._transport = transport
        self._window = window
        self._window_bytes = window_bytes
        self._held = HeldQueues(context.emit)
        self._publisher: Publisher | None = None
        self._suspects = 0
        """So many copies are to be sent one by one: one of them made the broker close a channel."""
        self._failures = 0

    def describe(self) -> tuple[bool, str]:
        """Return a word about copies and notices for /health/ready; called by other threads.

        Always ready: what waits here holds up neither ingestion nor retries.
        """
        held = self._held.describe()
        if held is not None:
            return True, f"nothing can be sent to {held}"
        return True, "sending" if self._context.lease.held else "standing by"

    def run(self) -> None:
        """Send until the stop event is set; after an error, try again when the back-off is over."""
        while not self._context.stop.is_set():
            self._context.stop.wait(self._turn())
        self._drop()

    def _turn(self) -> float:
        """Send one window; return the seconds to wait before the next one."""
        try:
            if not self._context.lease.held:
                self._stand_by()
                return LOOK
            worked = self.send_once()
        except _Stopped:
            return 0
        except LeaseLost:
            # Reported by the processor, whose lease it is.
            self._stand_by()
            return LOOK
        except RetrierError as error:
            return self._back_off(error, None)
        except Exception as error:  # noqa: BLE001 - the loop's edge: it must outlive any failure
            return self._back_off(error, error)
        self._recover()
        return 0 if worked else LOOK

    def send_once(self) -> bool:
        """Send at most one window; return whether there was one.

        Raises BrokerUnavailable, DatabaseUnavailable, LeaseLost.
        """
        copies = self._take()
        if not copies:
            self._held.skip_trials(self._context.clock.monotonic())
            if self._publisher is not None:
                self._publisher.keep_alive()
            return False
        # A process that was frozen past its lease notices it here: another one sends by now.
        self._context.lease.ensure_fresh()
        self._send(copies)
        return True

    def _take(self) -> Sequence[WaitingCopy]:
        context, now = self._context, self._context.clock.monotonic()
        one = self._suspects or self._held.is_any_on_trial(now)
        found = find_outgoing(context.db, 1 if one else self._window, self._held.closed(now))
        sizes = accumulate(each.size for each in found)
        fitting = sum(1 for _ in takewhile(lambda size: size <= self._window_bytes, sizes))
        return found[: max(1, fitting)]

    def _send(self, copies: Sequence[WaitingCopy]) -> None:
        made, broken = self._make(copies)
        sendable = [copy for copy in copies if copy.outgoing_id not in broken]
        outcomes = self._connect().publish(made, self._wait_on) if made else ()
        result = settle(sendable, outcomes)
        self._context.emit(OutgoingPublished(confirmed=len(result.sent), count=len(made)))
        refused = {**broken, **result.refused}
        settle_outgoing(self._context.db, result.sent, refused, REFUSED_WAIT)
        self._note(copies, result)
        self._emit_put_off(copies, refused)
        if result.lost is not None:
            raise BrokerUnavailable(result.lost)

    def _make(self, copies: Sequence[WaitingCopy]) -> tuple[list[Outgoing], dict[int, str]]:
        """Return the messages to be sent, and the rows of which none can be made, with reasons."""
        copied = [each.attempt_id for each in copies if each.notice is None]
        told = [each.attempt_id for each in copies if each.notice is not None]
        db, codec = self._context.db, self._transport.codec
        contents = load_contents(db, copied) if copied else {}
        exceptions = load_exceptions(db, told, codec) if told else {}
        made: list[Outgoing] = []
        broken: dict[int, str] = {}
        for copy in copies:
            stored = contents.get(copy.attempt_id)
            if copy.notice is not None:
                made.append(self._make_notice(copy, exceptions.get(copy.attempt_id)))
            elif stored is None or copy.unique_message_id is None:
                broken[copy.outgoing_id] = _DELETED
            else:
                try:
                    made.append(self._make_one(copy.queue, copy.unique_message_id, *stored))
                except UnreadableProperties as error:
                    broken[copy.outgoing_id] = str(error)
        return made, broken

    def _make_one(self, queue: str, unique_message_id: str, raw: bytes, body: bytes) -> Outgoing:
        transport = self._transport
        logged = make_logged(transport.codec, raw, unique_message_id, own_user=transport.user)
        return Outgoing(queue=queue, raw=logged, body=body)

    def _make_notice(self, row: WaitingCopy, exception_message: str | None) -> Outgoing:
        """Return a notice. It needs nothing but its row: all else of the message may be deleted."""
        notice = row.notice or {}
        raw = make_notice_properties(self._transport.codec, notice)
        body = make_notice_body(notice, exception_message)
        return Outgoing(queue=row.queue, raw=raw, body=body)

    def _connect(self) -> Publisher:
        if self._publisher is None:
            # No queue has an empty name, so the broker drops the probe. It blocks during an alarm,
            # before a window is sent into it.
            probe = Outgoing(queue="", raw=self._transport.codec.empty, body=PROBE_BODY)
            self._publisher = self._transport.publisher(probe)
        return self._publisher

    def _wait_on(self) -> None:
        """End the wait for confirms if the service stops, or if another process sends by now."""
        if self._context.stop.is_set():
            raise _Stopped
        self._context.lease.check()

    def _note(self, copies: Sequence[WaitingCopy], result: Result) -> None:
        now = self._context.clock.monotonic()
        confirmed = set(result.sent)
        for queue in {each.queue for each in copies if each.outgoing_id in confirmed}:
            self._held.free(queue)
        for queue, reason in result.missing.items():
            self._held.hold(queue, reason, now, certain=True)
        for queue, reason in result.refusing.items():
            self._held.hold(queue, reason, now, certain=len(copies) > 1)
        self._suspects = result.suspects or max(0, self._suspects - 1)

    def _emit_put_off(self, copies: Sequence[WaitingCopy], refused: dict[int, str]) -> None:
        """Report the copies that are put off for the first time; each is tried every minute."""
        new = [each for each in copies if each.outgoing_id in refused and not each.put_off]
        if new:
            reason = refused[new[0].outgoing_id]
            event = OutgoingPutOff(queue=new[0].queue, count=len(new), reason=reason)
            self._context.emit(event)

    def _back_off(self, error: Exception, unforeseen: Exception | None) -> float:
        if not isinstance(error, DatabaseUnavailable):
            self._drop()
        self._failures += 1
        if self._failures == 1:
            reason = str(error) if unforeseen is None else f"unforeseen {type(error).__name__}"
            self._context.emit(OutgoingPaused(reason=reason, error=unforeseen))
        return back_off(self._failures)

    def _recover(self) -> None:
        if self._failures:
            self._context.emit(OutgoingResumed())
        self._failures = 0

    def _stand_by(self) -> None:
        self._drop()
        self._held.forget()
        self._suspects = 0

    def _drop(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close()
