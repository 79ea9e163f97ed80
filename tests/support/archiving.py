"""Acts on many messages as people ask for them, and the thread that works them off."""

from retrier.archives import Archives
from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveRequest
from retrier.domain.selection import Selection
from retrier.events.event import Emit, ignore
from retrier.processor.archive import Archiving
from retrier.store.archive_lists import find_archive_operation
from retrier.store.engine.database import Database
from tests.support.bench import Bench

CHUNK = 2
"""Messages of a chunk, and how many are done at once at most."""


def request_for(
    act: Act, selection: Selection, *, who: str = "ada", key: str | None = None
) -> ArchiveRequest:
    """Make a request."""
    return ArchiveRequest(
        act=act,
        selection=selection,
        originator=f"{act} of a test",
        requested_by=who,
        idempotency_key=key,
    )


def make_archives(db: Database, at_once: int = CHUNK, emit: Emit = ignore) -> Archives:
    """Make what takes the requests."""
    return Archives(db, lambda: None, emit, at_once)


def ask(bench: Bench, act: Act = Act.ARCHIVE, **parts: object) -> ArchiveOperation:
    """Ask for an act on what a selection matches."""
    selection = Selection(**parts)  # type: ignore[arg-type]
    return make_archives(bench.db, emit=bench.emit).ask(request_for(act, selection)).operation


def make_archiving(bench: Bench, chunk: int = CHUNK) -> Archiving:
    """Make what works them off, in the process of the bench."""
    return Archiving(bench.context, bench.wake, chunk)


def work_off_all(bench: Bench, chunk: int = CHUNK) -> int:
    """Work until nothing is left; return how many chunks that took."""
    archiving = make_archiving(bench, chunk)
    chunks = 0
    while archiving.work_once():
        chunks += 1
    return chunks


def state_of(bench: Bench, operation: ArchiveOperation) -> ArchiveOperation:
    """Return the operation as it is now."""
    found = find_archive_operation(bench.db, operation.operation_id)
    assert found is not None
    return found
