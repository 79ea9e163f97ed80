"""A destination or the staging queue goes away, or takes no more, while there is work."""

import pytest

from tests.faults.conftest import Begin
from tests.faults.work import RETRIED, TOTALS, WINDOW, Work, check
from tests.journeys.conftest import Site
from tests.support.tcp_proxy import TcpProxy

pytestmark = [
    pytest.mark.faults,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
]

on_each_kind = pytest.mark.parametrize("kind", ["quorum", "classic"])

UNRESOLVED = "SELECT message_id FROM failed_messages WHERE status = 'unresolved'"


def finish(work: Work) -> None:
    """Wait until the operation has said of each of its messages what became of it."""
    work.must_finish()
    assert work.attempts() == dict.fromkeys(work.retried | work.arriving, 1)
    work.must_be_calm()


def find_back(work: Work) -> set[str]:
    """Return which of the messages to be retried are unresolved again."""
    return {row[0] for row in work.site.query(UNRESOLVED)} & work.retried


def test_what_was_not_taken_by_a_deleted_destination_is_unresolved_again(
    site: Site, begin: Begin
) -> None:
    work = begin(site)
    work.wait_for("forwarding")

    with work.fault():
        site.shop.delete(site.shop.orders)

    finish(work)
    ((total, forwarded, skipped, failed),) = site.query(TOTALS)
    assert 0 < forwarded < RETRIED
    assert (forwarded + failed, skipped) == (total, 0)
    assert len(find_back(work)) == failed


@on_each_kind
def test_what_a_full_destination_refuses_is_unresolved_again(site: Site, begin: Begin) -> None:
    # Given a destination that is full in the middle of the operation
    shop, most = site.shop, RETRIED // 2
    shop.delete(shop.orders)
    shop.declare(shop.orders, {"x-max-length": most, "x-overflow": "reject-publish"})

    work = begin(site)

    # Then each of the messages is either there, once, or unresolved with the broker's words
    work.begin_now()
    finish(work)
    sent, back = work.sent(), find_back(work)
    assert set(sent) | back == work.retried
    assert set(sent) & back == set()
    assert work.figures.doubled == 0
    assert most <= len(sent) <= most + 2 * WINDOW  # a quorum queue learns late that it is full


@on_each_kind
@pytest.mark.parametrize("stage", ["staging", "forwarding"])
def test_a_staging_queue_that_is_deleted_is_filled_again(work: Work, line: TcpProxy) -> None:
    with work.fault():
        work.site.shop.delete(work.site.staging_queue)
        line.throttle(None)

    work.must_finish()
    check(work)
