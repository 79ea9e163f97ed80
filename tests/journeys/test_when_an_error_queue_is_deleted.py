"""An error queue is deleted while the service runs."""

import pytest

from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.waiting import wait_until

pytestmark = RABBITMQ_AND_POSTGRES


@pytest.fixture
def kind() -> str:
    """Name the type of all queues."""
    return "quorum"


def test_it_is_declared_again_and_what_fails_from_then_on_is_ingested(site: Site) -> None:
    service = site.host.start_ready()

    site.shop.delete(site.shop.error)

    # Then it is there again, without a restart
    wait_until(lambda: service.find("ingestion.resumed"), 30, "it is ingested again")
    site.shop.fail(1)
    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == 1, 30, "the failure is stored")
    assert len(service.find("ingestion.paused")) == 1
