"""What a patch would make, on both databases: counted by reason, shown, and nothing is kept."""

from typing import Any

import pytest
from sqlalchemy import delete, update

from retrier.domain.edits import EditRefusal
from retrier.domain.patches import PatchRefusal, write_patch
from retrier.domain.retry_operation import RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.patches import MOST_BYTES, SAMPLES, PatchPreview
from retrier.store.previews import preview
from retrier.store.recording import record_received
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.selections import last_number
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.factories import failure, unique_id
from tests.support.patching import BODY, PATCH

CODEC = AmqpPropertyCodec()


def fail(db: Database, count: int = 1, **changes: Any) -> list[str]:
    given: dict[str, Any] = {"body": BODY, "headers": {"X-Old": "1"}}
    failures = [failure(**(given | changes)) for _ in range(count)]
    record_received(db, failures, instance="test")
    return [unique_id(each) for each in failures]


def look(db: Database, limit: int | None = None) -> PatchPreview:
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="a test",
        requested_by="ada",
        terms=RetryTerms(patch=write_patch(PATCH), limit=limit),
    )
    found = preview(db, request, last_number(db), CODEC).patched
    assert found is not None
    return found


def test_all_messages_are_looked_at_in_the_order_in_which_they_are_sent(database) -> None:
    keys = fail(database, SAMPLES + 3)

    found = look(database)

    assert (found.looked_at, found.changed, found.is_all) == (SAMPLES + 3, SAMPLES + 3, True)
    assert [each.unique_message_id for each in found.samples] == keys[:SAMPLES]


def test_those_that_it_cannot_be_applied_to_are_counted_by_reason(database) -> None:
    fail(database, 2, body=b"plain")
    fail(database, 3)

    found = look(database)

    assert found.refused == {str(PatchRefusal.NO_JSON): 2}
    assert found.changed == 3


def test_a_limit_bounds_what_is_looked_at(database) -> None:
    fail(database, 5)

    assert look(database, limit=2).looked_at == 2


def test_a_message_without_a_body_in_the_database_is_counted_as_that(database) -> None:
    fail(database)
    with database.engine.begin() as conn:
        conn.execute(delete(processing_attempts))

    assert look(database).refused == {str(EditRefusal.DELETED): 1}


def test_only_so_many_bytes_are_looked_at(database) -> None:
    fail(database, 3)
    with database.engine.begin() as conn:
        conn.execute(update(failed_messages).values(body_size=MOST_BYTES // 2))

    found = look(database)

    assert (found.looked_at, found.is_all) == (1, False)


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"{", b'{"order": 1, "order": 2}'])
def test_a_body_that_nobody_can_patch_is_a_reason_and_no_error(database, body: bytes) -> None:
    fail(database, body=body)

    assert sum(look(database).refused.values()) == 1
