"""Waits between the cuts of a rate that outlast a slow machine."""

from datetime import timedelta

from sqlalchemy import update

from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import retry_operations
from tests.support.bench import Bench


def stretch_wait(bench: Bench, created: CreatedOperation) -> list[timedelta]:
    """Let the wait after the next cut last an hour more; give how long it would have been.

    It may be over before a slow machine has sent what was cut: there would be one more cut.
    """
    waits: list[timedelta] = []

    def stretch() -> None:
        row = bench.operation(created)
        waits.append(row["next_cut"] - row["last_cut"])
        key = retry_operations.c.operation_id == created.operation_id
        later = row["next_cut"] + timedelta(hours=1)
        with bench.db.engine.begin() as conn:
            conn.execute(update(retry_operations).where(key).values(next_cut=later))

    bench.at("staging.committed", stretch)
    return waits
