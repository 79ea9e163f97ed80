"""An event, its subscribers, and the stream that connects them."""

from collections.abc import Callable
from typing import ClassVar

from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. Subclasses are frozen values with ids and numbers.

    `name` is used by the log and by the tests' crash switch. Fields that are text, numbers or
    errors may be logged, so none of them holds a body, the value of a header, or a secret.
    """

    name: ClassVar[str]


Emit = Callable[[Event], None]
"""Takes an event, in the thread in which it happened, before that thread does anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberFailed(Event):
    """Counting, tracing or logging an event raised an exception; the work itself goes on."""

    name = "subscriber.failed"
    error: Exception


def ignore(_event: Event) -> None:
    """Do nothing: the event has no subscriber."""


class EventStream:
    """Hands each event to all subscribers, in their order."""

    def __init__(self, *subscribers: Emit) -> None:
        self._subscribers = subscribers

    def emit(self, event: Event) -> None:
        """Call every subscriber with the event."""
        for subscriber in self._subscribers:
            subscriber(event)


class Harmless:
    """Wraps a subscriber so that it raises nothing: its first exception is reported.

    Some events happen after the broker has confirmed a window and before that is recorded. An
    exception there would leave the window unrecorded, so it would be sent again and again.
    """

    def __init__(self, inner: Emit, report: Emit) -> None:
        self._inner = inner
        self._report = report
        self._reported = False

    def __call__(self, event: Event) -> None:
        """Hand the event on."""
        try:
            self._inner(event)
        except Exception as error:  # noqa: BLE001 - better lose a count than send a message twice
            if not self._reported:
                self._reported = True
                self._report(SubscriberFailed(error=error))
