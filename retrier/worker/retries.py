"""What a worker does about second copies of a retry; nothing unless it has a `seen`."""

from collections.abc import Callable, Sequence
from typing import Any

from retrier.clock import Clock
from retrier.worker.condition import LOG
from retrier.worker.hand import Held
from retrier.worker.outcomes import Done, Ended, SecondCopy
from retrier.worker.seen import CLAIM, Begun, Busy, Handled, make_seen

LOOK_AGAIN = 0.5
"""Seconds before a message is looked at again whose other copy is being handled."""


class Retries:
    """Asks before a handler is started, and notes when it has returned."""

    def __init__(self, given: Any, clock: Clock) -> None:
        self._seen = make_seen(given, clock)
        self._clock = clock
        self._kept = clock.monotonic()

    def begin(self, held: Held) -> SecondCopy | None:
        """Return that it was handled before; or None, with `not_before` set if it has to wait."""
        if self._seen is None or held.retry_id is None:
            return None
        try:
            found = self._seen.begin(held.retry_id)
        except Exception:  # noqa: BLE001 - somebody else's
            LOG.exception("it cannot be found out which retries were handled; the message waits")
            found = Busy()
        match found:
            case Begun():
                return None
            case Handled(result):
                return SecondCopy(result)
            case Busy():
                held.not_before = self._clock.monotonic() + LOOK_AGAIN
                return None

    def end(self, held: Held, ended: Ended, result_of: Callable[[Held, Done], bytes]) -> None:
        """Note that it was handled, or that it was not. Before anything is published.

        After a crash in between, the result is published by who finds the message handled.
        """
        if self._seen is None or held.retry_id is None:
            return
        try:
            if isinstance(ended, Done):
                self._seen.finish(held.retry_id, result_of(held, ended))
            else:
                self._seen.drop(held.retry_id)
        except Exception:  # noqa: BLE001 - somebody else's
            LOG.exception("a retry that was handled cannot be remembered as such")

    def keep(self, running: Sequence[Held]) -> None:
        """Renew the claims of what is being handled, when that is due."""
        now = self._clock.monotonic()
        if self._seen is None or now - self._kept < CLAIM / 3:
            return
        self._kept = now
        try:
            self._seen.keep([held.retry_id for held in running if held.retry_id is not None])
        except Exception:  # noqa: BLE001 - somebody else's
            LOG.exception("the claims of retries cannot be renewed")

    def close(self) -> None:
        """Let go of file or connection."""
        if self._seen is not None:
            self._seen.close()
