"""What a worker makes of a message that arrives."""

from collections.abc import Mapping
from typing import assert_never

from retrier.clock import Clock
from retrier.domain import headers
from retrier.domain.wire import Properties, PropertyCodec
from retrier.worker.crashes import Poison, Startable, Uncounted, Verdict, judge_delivery
from retrier.worker.hand import Held
from retrier.worker.handlers import Handler
from retrier.worker.line import Line, Received
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Problem, Reason
from retrier.worker.timeouts import read_late

Arrived = Startable | Uncounted | Broken

EARLY_FOR = 0.5
"""Seconds for which a message stays in hand that is tried again later; then others have their turn."""


class Arrivals:
    """Reads the properties of messages, and judges how often they ended a process."""

    def __init__(
        self,
        options: Options,
        handlers: Mapping[str, Handler],
        codec: PropertyCodec,
        clock: Clock,
    ) -> None:
        self._options = options
        self._handlers = handlers
        self._codec = codec
        self._clock = clock

    def take_in(self, line: Line, received: Received) -> tuple[Held, Arrived]:
        """Return the message, and what is to be done with it."""
        queue, source, delivery = received
        properties, unreadable = self._codec.read_what_can_be(delivery.raw)
        verdict = judge_delivery(
            properties.headers,
            redelivered=delivery.redelivered,
            counted=queue in line.counted,
            limit=self._options.crash_limit,
        )
        late = read_late(properties.headers, self._options.timeout, self._clock.now())
        now = self._clock.monotonic()
        held = Held(
            source=source,
            handler=self._handlers[queue],
            delivery=delivery,
            properties=properties,
            crashes=verdict.crashes,
            retry_id=_retry_id(properties),
            not_before=now + late.seconds,
            timeouts=late.times,
            seen_until=now + EARLY_FOR,
        )
        if unreadable is not None:
            return held, Broken(_unreadable(unreadable), held.starts)
        return held, self._judge(held, verdict)

    def _judge(self, held: Held, verdict: Verdict) -> Arrived:
        name = self._options.name or held.handler.name
        match verdict:
            case Startable() if held.timeouts > self._options.timeout_limit:
                problem = _too_slow(name, held.timeouts, self._options.timeout or 0)
                return Broken(problem, held.starts)
            case Startable() | Uncounted():
                return verdict
            case Poison(crashes):
                return Broken(_poison(name, crashes), held.starts)
            case _ as never:
                assert_never(never)


def _retry_id(properties: Properties) -> str | None:
    return properties.text(headers.RETRY_ID)


def _poison(name: str, crashes: int) -> Problem:
    return Problem(
        reason=Reason.POISON,
        type="PoisonMessage",
        message=f"{name} was started {crashes} times with this message, and crashed each time",
    )


def _too_slow(name: str, times: int, seconds: float) -> Problem:
    return Problem(
        reason=Reason.TIMEOUT,
        type="HandlerTimeout",
        message=f"{name} took longer than {seconds:g} s with this message, each of {times} times",
    )


def _unreadable(why: str) -> Problem:
    return Problem(
        reason=Reason.INVALID,
        type="UnreadableProperties",
        message=f"the properties of the message cannot be read: {why}",
    )
