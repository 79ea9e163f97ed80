"""When a worker takes nothing because something it needs is away or fails, and when it goes on."""

from threading import Lock, Thread

from retrier.clock import Clock
from retrier.worker.breaker import Circuit, State
from retrier.worker.options import Health

LONGEST = 60.0
"""Seconds: a delay is doubled up to this."""


class Pause:
    """Over when the health check passes; without one, after a delay that is doubled each time.

    A breaker that is open is a pause as well: `circuit` says when that is over.
    """

    def __init__(
        self, health: Health | None, delay: float, clock: Clock, circuit: Circuit | None = None
    ) -> None:
        """With a health check it begins paused: nothing is taken before it has passed once."""
        self._probe = None if health is None else HealthProbe(health)
        self._clock = clock
        self._circuit = circuit or Circuit(None)
        self._first = delay
        self._delay = delay
        self._next = clock.monotonic()
        self._is_away = health is not None
        self._why_away = "the health check has not passed yet"

    @property
    def active(self) -> bool:
        """Whether nothing is to be taken."""
        return self._is_away or self._circuit.state is State.OPEN

    @property
    def why(self) -> str:
        """Why nothing is taken; what was the reason, if it is."""
        return self._why_away if self._is_away else self._circuit.why or self._why_away

    def begin(self, why: str) -> None:
        """Pause, or stay paused: something is away."""
        if self._is_away:
            return
        self._is_away = True
        self._why_away = why
        self._next = self._clock.monotonic() + self._delay
        if self._probe is None:
            self._delay = min(2 * self._delay, LONGEST)

    def succeed(self) -> None:
        """Note that a message was handled: the next pause is a short one again."""
        self._delay = self._first

    def check(self) -> bool:
        """Return whether it is still paused; look at the health check if that is due."""
        if not self.active:
            return False
        self._circuit.check(self._clock.monotonic())
        if self._is_away:
            self._look()
        return self.active

    def _look(self) -> None:
        now = self._clock.monotonic()
        if self._probe is None:
            self._is_away = now < self._next
            return
        if now >= self._next:
            self._next = now + self._delay
            self._probe.ask()
        answer = self._probe.take_answer()
        if answer is not None:
            self._is_away = answer != ""
            self._why_away = f"the health check fails: {answer}" if answer else self._why_away


class HealthProbe:
    """Asks a health check in a thread of its own: it may hang, and heartbeats have to go on."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._lock = Lock()
        self._asking = False
        self._answer: str | None = None

    def ask(self) -> None:
        """Ask, unless the last question is not answered yet."""
        with self._lock:
            if self._asking:
                return
            self._asking = True
        Thread(target=self._run, name="health check", daemon=True).start()

    def take_answer(self) -> str | None:
        """Return what was answered since the last call: "" if healthy, else why not; else None."""
        with self._lock:
            answer, self._answer = self._answer, None
        return answer

    def _run(self) -> None:
        try:
            answer = "it says False" if self._health() is False else ""
        except BaseException as error:  # noqa: BLE001 - somebody else's function
            answer = type(error).__name__
        with self._lock:
            self._asking, self._answer = False, answer
