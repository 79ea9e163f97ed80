"""One message that the broker will not take never stops the others."""

import pytest

from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.recording import record_received
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.factories import failure, unique_id
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

TOO_LARGE = 135 * 1024 * 1024
"""Bytes: RabbitMQ refuses more than 128 MiB unless it is configured otherwise."""


def completed(site: Site) -> bool:
    return site.query("SELECT state FROM retry_operations") == [("completed",)]


def test_a_destination_that_is_gone_reverts_only_its_messages(site: Site) -> None:
    # Given failures of two queues, one of which is deleted
    gone = site.shop.declare(f"{site.shop.orders}.gone")
    lost = site.shop.fail(3, queue=gone)
    kept = site.shop.fail(3)
    site.shop.delete(gone)
    service = site.host.start_ready()
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "6", 30)

        http.post("/api/errors/retry/all")

        # Then these are unresolved again with the broker's words, and the others are sent
        sent = site.shop.take(site.shop.orders, 3)
        assert {each.properties.message_id for each in sent} == set(kept)
        wait_until(lambda: completed(site), 30)
        listed = http.get("/api/errors", params={"status": "unresolved"}).json()
        assert {each["message_id"] for each in listed} == set(lost)
        assert all(
            f"queue {gone} does not exist (" in each["disposition_reason"] for each in listed
        )
    counts = site.query("SELECT total, forwarded, failed, skipped FROM retry_operations")
    assert counts == [(6, 3, 3, 0)]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("classic", marks=[*RABBITMQ_AND_POSTGRES, pytest.mark.kills]),
        pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES),
    ],
)
def test_a_body_too_large_for_the_broker_reverts_only_its_message(site: Site) -> None:
    # Given a message that the broker would not take any more, among others
    site.shop.fail(3)
    service = site.host.start_ready()
    large = failure(body=b"x" * TOO_LARGE, queue=site.shop.orders, error_queue=site.shop.error)
    db = Database(DatabaseOptions(url=site.database_url))
    record_received(db, [large], instance="test")
    db.dispose()
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "4", 30)

        http.post("/api/errors/retry/all")

        assert len(site.shop.take(site.shop.orders, 3)) == 3
        wait_until(lambda: completed(site), 60)
        row = http.get(f"/api/errors/{unique_id(large)}").json()
        assert row["status"] == "unresolved"
        assert "message size" in row["disposition_reason"]
