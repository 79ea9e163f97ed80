"""A listener for tests: keeps what is told, and refuses what the real one would refuse."""

from retrier.logs import put_into_words


class Told:
    """Remembers every event with its fields; an event that is not in the table is a KeyError."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def say(self, event: str, /, **fields: object) -> None:
        put_into_words(event, fields)
        self.events.append((event, fields))

    @property
    def names(self) -> list[str]:
        return [event for event, _ in self.events]

    def of(self, event: str) -> list[dict[str, object]]:
        """Return the fields of each line of one event."""
        return [fields for told, fields in self.events if told == event]
