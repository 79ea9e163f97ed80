"""Headers are anybody's to write: what carries Retrier's own keeps its body all the same."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from retrier.domain.failed_imports import UNKNOWN_MESSAGE
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.shop import failure_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

BODIES = """
SELECT body FROM processing_attempts WHERE same_body_as IS NULL UNION ALL
SELECT body FROM failed_imports
"""
STAGED = {"ServiceControl.Retry.StagingId": "somebody's"}


def confirming(unique_message_id: str) -> dict[str, str]:
    return {
        "ServiceControl.Retry.Successful": "2099-05-04 12:00:00:000000 Z",
        "ServiceControl.Retry.UniqueMessageId": unique_message_id,
    }


def kept_bodies(site: Site) -> Sequence[bytes]:
    """Return the bodies of failed messages and of failed imports, once all is taken off."""
    with site.host.start_ready().http:
        wait_until(lambda: site.shop.depth(site.shop.error) == 0, 30)
        wait_until(lambda: site.count("SELECT COUNT(*) FROM ledger") > 0, 30)
    return [bytes(body) for (body,) in site.query(BODIES)]


def test_a_failure_with_somebodys_staging_id_is_a_failure(site: Site) -> None:
    message_id = {"NServiceBus.MessageId": str(uuid4())}
    site.shop.put(failure_headers(site.shop.orders) | message_id | STAGED, b"an order")

    assert kept_bodies(site) == [b"an order"]
    assert site.query("SELECT status FROM failed_messages") == [("unresolved",)]


def test_a_message_with_nothing_but_a_staging_id_is_a_failed_import(site: Site) -> None:
    site.shop.put(STAGED, b"an order")

    assert kept_bodies(site) == [b"an order"]


def test_a_confirmation_of_a_message_that_nobody_knows_is_a_failed_import(site: Site) -> None:
    site.shop.put(confirming(str(uuid4())), b"an order")

    assert kept_bodies(site) == [b"an order"]
    assert site.query("SELECT reason FROM failed_imports") == [(UNKNOWN_MESSAGE,)]


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=RABBITMQ_AND_POSTGRES) for each in ("classic", "quorum")]
)
def test_a_copy_of_ours_that_dies_its_way_to_an_error_queue_is_dropped(site: Site) -> None:
    # Given a process that was killed when its copies were staged
    site.shop.fail(2)
    killed = site.host.start_ready(crash_at="staging.committed")
    with killed.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "2", 30)
        http.post("/api/errors/retry/all")
        killed.process.wait(30)

    # When a policy of the broker lets copies of it die
    for copy in site.shop.look(site.staging_queue, 2):
        site.shop.let_die(copy)
    wait_until(lambda: site.shop.depth(site.shop.error) == 2, 30)

    # Then they are known for what they are, and the retry goes its way
    site.host.start_ready()
    assert len(site.shop.take(site.shop.orders, 2)) == 2
    counted = "SELECT count FROM ledger WHERE entry = 'own_copies'"
    wait_until(lambda: site.query(counted) == [(2,)], 30)
    assert site.count("SELECT COUNT(*) FROM failed_messages") == 2
    assert site.count("SELECT COUNT(*) FROM failed_imports") == 0
