"""Events of streams."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReleased(Event):
    """A person has let go of messages that earlier ones of their stream held."""

    name = "stream.released"
    queue: str
    stream_id: str
    count: int
