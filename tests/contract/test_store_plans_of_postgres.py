"""What PostgreSQL is asked of tables that have grown since it looked at them last."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from retrier.domain.classifiers import CLASSIFIERS
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.groups import count_groups
from tests.contract.store_rows import record
from tests.support.databases import empty, temporary_postgres
from tests.support.factories import failure

pytestmark = pytest.mark.postgres

MANY = 400


@pytest.fixture
def emptied(postgres_url: str, upgraded_postgres: str) -> Iterator[Database]:
    """Give a database that had messages; the server has looked at it since they were deleted.

    No statement may take longer than 2 s.
    """
    with temporary_postgres(postgres_url, upgraded_postgres) as url:
        db = Database(DatabaseOptions(url=url, lease=timedelta(seconds=4)))
        record(db, *(failure(queue=f"old {number}") for number in range(MANY)))
        empty(db)
        with db.engine.begin() as conn:
            conn.exec_driver_sql("ANALYZE")
        yield db
        db.dispose()


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_groups_are_counted_though_the_server_assumes_one_row(
    emptied: Database, classifier: str
) -> None:
    record(emptied, *(failure(queue=f"queue {number}") for number in range(MANY)))

    found = count_groups(emptied, classifier)

    assert sum(group.count for group in found) == MANY
