"""A selection: which messages a retry operation asks for. Its parts are joined by *and*."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The frozen question of an operation; an empty one selects every unresolved message."""

    ids: tuple[str, ...] | None = None
    group: str | None = None
    queue: str | None = None
    endpoint: str | None = None
    exception_type: str | None = None
    message_type: str | None = None
