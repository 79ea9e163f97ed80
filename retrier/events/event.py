"""An event, who is told of it, and the stream in between."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. Subclasses are frozen values with ids and numbers.

    `name` is what the log and the tests' crash switch know it by. Text, numbers and errors among
    its fields may be logged, so none of them holds a body, a header's value or a secret.
    """

    name: ClassVar[str]


Emit = Callable[[Event], None]
"""Told of an event, in the thread in which it happened, before anything else happens there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberFailed(Event):
    """Counting, tracing or logging an event raised something; what was counted goes on."""

    name = "subscriber.failed"
    error: Exception


def ignore(_event: Event) -> None:
    """Do nothing: nobody listens."""


class EventStream:
    """Hands each event to all subscribers, in their order."""

    def __init__(self, *subscribers: Emit) -> None:
        self._subscribers = subscribers

    def emit(self, event: Event) -> None:
        """Tell every subscriber."""
        for subscriber in self._subscribers:
            subscriber(event)


class Harmless:
    """A subscriber that raises nothing: what fails in it is reported once.

    Some events come between the broker's confirmation and the record of it. An exception there
    would leave the window unrecorded, so that it is sent again, and again.
    """

    def __init__(self, inner: Emit, report: Emit) -> None:
        self._inner = inner
        self._report = report
        self._reported = False

    def __call__(self, event: Event) -> None:
        """Hand the event on."""
        try:
            self._inner(event)
        except Exception as error:  # noqa: BLE001 - no count and no span is worth a retry
            if not self._reported:
                self._reported = True
                self._report(SubscriberFailed(error=error))
