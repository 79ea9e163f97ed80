"""A log for tests: keeps the lines that events make."""

from retrier.app.log import Log, LogLine, put_into_words
from retrier.clock import Clock
from retrier.events.event import Event
from tests.support.frozen_clock import FrozenClock


class Told:
    """Remembers every line with its fields; subscribes to events as the real log does."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.lines: list[LogLine] = []
        self._log = Log(self._write, clock or FrozenClock())

    def tell(self, event: Event) -> None:
        """Be told of an event."""
        self._log(event)

    @property
    def events(self) -> list[tuple[str, dict[str, object]]]:
        """The name and the fields of each line."""
        return [(line.name, dict(line.fields)) for line in self.lines]

    @property
    def names(self) -> list[str]:
        return [line.name for line in self.lines]

    def of(self, name: str) -> list[dict[str, object]]:
        """Return the fields of each line of one name."""
        return [fields for told, fields in self.events if told == name]

    def _write(self, line: LogLine) -> None:
        put_into_words(line)
        self.lines.append(line)
