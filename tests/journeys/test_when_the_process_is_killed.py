"""A real SIGKILL to a real process inside each stage, then a new process."""

from collections import Counter

import pytest

from retrier.domain import headers
from tests.journeys.conftest import Site
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

COUNT = 600
WINDOW = 200

INGESTION = ["ingestion.before_record:5", "ingestion.after_record:5"]
PROCESSOR = [
    "marking.claimed",
    "staging.published",
    "staging.committed",
    "forwarding.stamped:2",
    "forwarding.published:2",
    "forwarding.acked:2",
]


@pytest.mark.parametrize("point", INGESTION)
def test_a_kill_while_ingesting_loses_and_doubles_nothing(site: Site, point: str) -> None:
    failed = site.shop.fail(COUNT)
    doomed = site.host.start(crash_at=point)
    doomed.wait_dead()

    site.host.start_ready()

    stored = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(stored) == COUNT, 30, "all are stored")
    wait_until(lambda: site.shop.depth(site.shop.error) == 0, 10, "all are taken off")
    rows = site.query("SELECT message_id, attempts FROM failed_messages")
    assert sorted(row[0] for row in rows) == sorted(failed)
    assert {row[1] for row in rows} == {1}


@pytest.mark.parametrize("point", PROCESSOR)
def test_a_kill_while_retrying_loses_nothing_and_doubles_a_window(site: Site, point: str) -> None:
    # Given failed messages, and a process that dies at the point
    failed = site.shop.fail(COUNT)
    doomed = site.host.start(crash_at=point)
    doomed.wait_ready()
    wait_until(lambda: site.count("SELECT count(*) FROM failed_messages") == COUNT, 30)
    with doomed.http as http:
        http.post("/api/errors/retry/all")
    doomed.wait_dead()

    # When another one is started
    site.host.start_ready()

    # Then the operation completes by itself
    state = "SELECT state FROM retry_operations"
    wait_until(lambda: site.query(state) == [("completed",)], 30, "the operation completes")
    sent = site.shop.take(site.shop.orders, COUNT)
    copies = Counter(each.properties.message_id for each in sent)
    assert set(copies) == set(failed)
    assert sum(copies.values()) - COUNT <= WINDOW
    # and all copies of one retry carry the same retry id
    assert len({each.headers[headers.RETRY_ID] for each in sent}) == COUNT
    assert site.query("SELECT forwarded, skipped, failed FROM retry_operations") == [(COUNT, 0, 0)]
