"""Watches what open pages tell of: archive operations that are worked off, and listed streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from retrier.domain.archive_operation import ArchiveOperation, ArchiveOperationState
from retrier.domain.streams import Stream
from retrier.store.engine.database import Database
from retrier.store.queries.archive_operations import find_archive_operation, list_open_archives
from retrier.store.queries.ordering import PageRequest
from retrier.store.queries.streams import (
    HeldMessages,
    ListedStream,
    count_held,
    find_stream,
    list_streams,
)

_KEPT = 50
"""Operations and streams that are told of though they are over: the last ones.

Of operations that are open, no more either.
"""
MOST_STREAMS = 200
"""Streams whose rows are told: those that hold most. Rows of others change when they are loaded."""


class ArchiveWatch:
    """Knows the operations that are open, and how those ended that were open at an earlier look."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: Mapping[str, ArchiveOperation] = {}

    def look(self) -> Mapping[str, ArchiveOperation]:
        """Return them by id. Raises DatabaseUnavailable."""
        still = {each.operation_id: each for each in list_open_archives(self._db, _KEPT)}
        gone = [
            key
            for key, each in self._known.items()
            if key not in still and each.state is not ArchiveOperationState.COMPLETED
        ]
        found = (find_archive_operation(self._db, key) for key in gone)
        ended = {each.operation_id: each for each in found if each is not None}
        over = {
            key: each
            for key, each in self._known.items()
            if each.state is ArchiveOperationState.COMPLETED
        }
        newest = list({**over, **ended}.items())[-_KEPT:]
        self._known = {**dict(newest), **still}
        return self._known


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStreams:
    """What is held in all, the streams that are told, and those that ended since they were."""

    held: HeldMessages = field(default_factory=HeldMessages)
    listed: Mapping[Stream, ListedStream] = field(default_factory=dict)
    ended: tuple[Stream, ...] = ()


class StreamWatch:
    """Knows which streams it told of, and which of these have no open message any more."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._seen = SeenStreams()

    def look(self) -> SeenStreams:
        """Return what is to be told now. Raises DatabaseUnavailable."""
        found = list_streams(self._db, PageRequest(size=MOST_STREAMS)).items
        listed = {each.stream: each for each in found}
        # One that is not listed may only have fallen behind others: then nothing is said of it.
        lost = [each for each in self._seen.listed if each not in listed]
        ended = (*self._seen.ended, *(each for each in lost if self._is_over(each)))
        still = dict.fromkeys(each for each in reversed(ended) if each not in listed)
        kept = tuple(islice(still, _KEPT))
        self._seen = SeenStreams(
            held=count_held(self._db), listed=listed, ended=tuple(reversed(kept))
        )
        return self._seen

    def _is_over(self, stream: Stream) -> bool:
        return find_stream(self._db, stream, PageRequest(size=1)) is None
