"""Failures that are stored, and operations that are asked for, behind the back of a service."""

from collections.abc import Iterator
from contextlib import contextmanager

from retrier.domain.retry_operation import RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.operation_requests import create_operation
from retrier.store.recording import record_received
from retrier.store.upgrade import upgrade_schema
from tests.support.databases import open_database
from tests.support.factories import failure

CHUNK = 1000


@contextmanager
def opened_store(url: str) -> Iterator[Database]:
    """Give the database of a service with its tables."""
    db = open_database(url)
    try:
        upgrade_schema(db)
        yield db
    finally:
        db.dispose()


def store_failures(db: Database, count: int, *, queue: str, error_queue: str, raw: bytes) -> None:
    """Store so many failures of a queue; `raw` are their properties."""
    left = count
    while left:
        some = min(left, CHUNK)
        made = [failure(raw=raw, queue=queue, error_queue=error_queue) for _ in range(some)]
        record_received(db, made, instance="test")
        left -= some


def ask_all(db: Database, terms: RetryTerms) -> str:
    """Ask for a retry of all with these terms; return the id of the operation."""
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="a test",
        requested_by="ada",
        terms=terms,
    )
    return create_operation(db, request).operation_id
