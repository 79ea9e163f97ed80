"""A destination or the staging queue goes away, or takes no more, while there is work."""

import pika.exceptions
import pytest

from tests.faults.work import RETRIED, STATES, WINDOW, Work, begin_work, check
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

UNRESOLVED = "SELECT message_id FROM failed_messages WHERE status = 'unresolved'"
COUNTS = "SELECT forwarded, failed, skipped FROM retry_operations"


def finish(work: Work) -> None:
    """Wait until the operation has said of each of its messages what became of it."""
    work.must_finish()
    assert work.attempts() == dict.fromkeys(work.retried | work.arriving, 1)


def holds_copies(work: Work) -> bool:
    """Whether there is a staging queue yet, and copies in it."""
    shop = work.reconnect()
    try:
        return shop.depth(work.site.staging_queue) > WINDOW
    except pika.exceptions.ChannelClosedByBroker:
        return False


def test_what_was_not_taken_by_a_deleted_destination_is_unresolved_again(
    site: Site, broker: PrivateRabbitMQ
) -> None:
    work = begin_work(site, broker.url)
    work.wait_for_the_middle()

    with work.fault():
        site.shop.delete(site.shop.orders)

    finish(work)
    ((forwarded, failed, skipped),) = site.query(COUNTS)
    assert 0 < forwarded < RETRIED
    assert (forwarded + failed, skipped) == (RETRIED, 0)
    back = {row[0] for row in site.query(UNRESOLVED)} & work.retried
    assert len(back) == failed


def test_what_a_full_destination_refuses_is_unresolved_again(
    site: Site, broker: PrivateRabbitMQ
) -> None:
    # Given a destination that is full in the middle of the operation
    shop, most = site.shop, RETRIED // 2
    shop.delete(shop.orders)
    shop.declare(shop.orders, {"x-max-length": most, "x-overflow": "reject-publish"})

    work = begin_work(site, broker.url)

    # Then each of the messages is either there, once, or unresolved with the broker's words
    finish(work)
    sent = work.sent()
    back = {row[0] for row in site.query(UNRESOLVED)} & work.retried
    assert set(sent) | back == work.retried
    assert set(sent) & back == set()
    assert set(sent.values()) == {1}
    assert most <= len(sent) <= most + 2 * WINDOW  # a quorum queue learns late that it is full


def test_a_staging_queue_that_is_deleted_is_filled_again(
    site: Site, broker: PrivateRabbitMQ
) -> None:
    work = begin_work(site, broker.url)
    work.wait_for_the_middle()

    with work.fault():
        site.shop.delete(site.staging_queue)

    work.must_finish()
    check(work)


def test_a_staging_queue_that_is_deleted_while_it_is_filled_is_filled_again(
    site: Site, broker: PrivateRabbitMQ
) -> None:
    work = begin_work(site, broker.url)
    work.wait_for("batch.marked")

    with work.fault():
        wait_until(lambda: holds_copies(work), 10, "some is staged")
        site.shop.delete(site.staging_queue)

    assert site.query(STATES) != [("completed",)]
    work.must_finish()
    check(work)
