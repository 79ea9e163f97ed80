"""The main job, as a user starts it: RabbitMQ, PostgreSQL, a real process, a plain client."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from retrier.domain import headers
from tests.journeys.conftest import ON_BOTH_BROKERS, ON_EVERY_KIND, Site
from tests.support.shop import Sent, Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

FAILED = 1200
DEAD_LETTERED = 300

# The destination itself adds its counter when it is a quorum queue.
ADDED = (
    headers.UNIQUE_MESSAGE_ID,
    headers.ACKNOWLEDGEMENT_QUEUE,
    headers.RETRY_ID,
    "x-delivery-count",
)
NSB_STRIPPED = (
    "NServiceBus.Retries",
    "NServiceBus.FailedQ",
    "NServiceBus.TimeOfFailure",
    "NServiceBus.ExceptionInfo.",
)

AT_ONCE = {"staging", "forwarding"}
"""What is seen of a batch where it is marked in one transaction: with PostgreSQL."""
STEPS = ("batch.marked", "batch.staged", "batch.forwarding", "batch.forwarded")
IN_STEPS = {"marking", *AT_ONCE}
DEADLINE = 60
FAILURES = "SELECT count(*) FROM processing_attempts"


@contextmanager
def watching_batches(site: Site) -> Iterator[set[str]]:
    """Collect every status in which a batch is seen in the database meanwhile."""
    seen: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.update(row[0] for row in site.query("SELECT status FROM retry_batches"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def without(kept: dict[str, object], *prefixes: str) -> dict[str, object]:
    return {name: value for name, value in kept.items() if not name.startswith(prefixes)}


def as_sent(sent: Sent) -> dict[str, object]:
    """Everything but headers."""
    values = vars(sent.properties).copy()
    values.pop("headers")
    return values


def assert_came_home(sent: Sent, original: Sent, *stripped: str) -> None:
    """Assert that it is as it was, less the headers its dialect strips."""
    assert sent.body == original.body
    assert as_sent(sent) == as_sent(original)
    assert without(sent.headers, *ADDED) == without(original.headers, *stripped)


def dead_letter(site: Site) -> dict[str, Sent]:
    """Let the broker dead-letter messages itself, where it can."""
    return site.shop.dead_letter(DEAD_LETTERED) if isinstance(site.shop, Shop) else {}


def take_payments(site: Site, count: int) -> list[Sent]:
    return site.shop.take(site.shop.payments, count) if count else []


@ON_EVERY_KIND
def test_the_main_job(site: Site, kind: str) -> None:
    # Given 1,200 messages that NServiceBus gave up, and 300 that RabbitMQ dead-lettered
    failed = site.shop.fail(FAILED)
    dead = dead_letter(site)
    service = site.host.start_ready()
    with service.http as http, watching_batches(site) as seen:
        wait_until(
            lambda: http.get("/api/errors").headers["Total-Count"] == str(FAILED + len(dead)),
            60,
            "all failed messages are listed",
        )

        # When somebody asks for a retry of all of them
        answer = http.post("/api/errors/retry/all", headers={"X-Retrier-User": "ada"})

        assert answer.status_code == 202
        orders = site.shop.take(site.shop.orders, FAILED)
        payments = take_payments(site, len(dead))
        wait_until(lambda: site.count("SELECT count(*) FROM retry_batches") == 0, 30)

    # Then each arrives exactly once
    assert sorted(sent.properties.message_id for sent in orders) == sorted(failed)
    assert sorted(sent.properties.message_id for sent in payments) == sorted(dead)
    for sent in orders:
        assert_came_home(sent, failed[sent.properties.message_id], *NSB_STRIPPED)
    for sent in payments:
        assert_came_home(sent, dead[sent.properties.message_id])
    # and the batches were seen in no other state, went through all steps, and every message has its claim
    assert seen <= (IN_STEPS if kind == "embedded" else AT_ONCE)
    assert set(STEPS) <= set(service.names())
    assert site.query("SELECT DISTINCT status FROM failed_messages") == [("retry_issued",)]
    recorded = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"
    assert site.count(recorded) == FAILED + len(dead)
    assert service.stop() == 0


def test_what_happens_to_a_message_afterwards(site: Site) -> None:
    # Given two messages that were retried once
    site.shop.fail(2)
    service = site.host.start_ready()
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "2", 30)
        http.post("/api/errors/retry/all")
        first, second = site.shop.take(site.shop.orders, 2)
        wait_until(lambda: site.count("SELECT count(*) FROM retry_batches") == 0, 30)
        ids = [sent.headers[headers.UNIQUE_MESSAGE_ID] for sent in (first, second)]

        # When a second retry of them is asked for, then nothing is sent and the reason is told
        again = http.post("/api/errors/retry", json=ids).json()["operation_id"]
        operation = f"/api/operations/{again}"
        wait_until(lambda: http.get(operation).json()["state"] == "completed", 30)
        assert http.get(operation).json()["skipped"] == 2
        assert "issued already" in http.get(operation).text
        assert site.shop.depth(site.shop.orders) == 0

        # When one is confirmed, then it is resolved
        site.shop.confirm(first)
        wait_until(lambda: http.get(f"/api/errors/{ids[0]}").json()["status"] == "resolved", 30)

        # When the other fails again, then it is unresolved with two attempts, and can be retried
        site.shop.fail_again(second)
        wait_until(lambda: http.get(f"/api/errors/{ids[1]}").json()["status"] == "unresolved", 30)
        listed = http.get("/api/errors", params={"status": "unresolved"}).json()
        assert [item["number_of_processing_attempts"] for item in listed] == [2]
        http.post(f"/api/errors/{ids[1]}/retry")
        (third,) = site.shop.take(site.shop.orders, 1)
        assert third.body == second.body
        assert third.headers[headers.RETRY_ID] != second.headers[headers.RETRY_ID]


@pytest.mark.alone
@ON_BOTH_BROKERS
def test_a_single_retry_on_an_idle_service_is_quick(site: Site) -> None:
    site.shop.fail(1)
    service = site.host.start_ready()
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == "1", 30)
        (listed,) = http.get("/api/errors").json()

        http.post(f"/api/errors/{listed['id']}/retry")

        wait_until(lambda: site.shop.depth(site.shop.orders) == 1, 1.0, "well under a second")


def test_a_consumer_that_counts_for_itself_begins_anew_with_each_retry(site: Site) -> None:
    # Given a message that was parked because its consumer has counted to three in its headers
    queue = {"queue": site.shop.error, "drop_headers": ["x-loops"]}
    site.host.configure("ingestion", error_queues=[queue])
    counted = {"Retrier.FailedQueue": site.shop.orders, "x-loops": 3, "tenant": "a"}
    site.shop.put(counted, b"job")
    service = site.host.start_ready()

    for attempts in (1, 2):
        wait_until(lambda n=attempts: site.count(FAILURES) == n, DEADLINE)

        # When it is retried, the retry has no count, and fails as the first time
        with service.http as http:
            assert http.post("/api/errors/retry/all").status_code == 202
        (sent,) = site.shop.take(site.shop.orders, 1)
        assert sent.headers.keys() >= {"tenant"}
        assert "x-loops" not in sent.headers
        site.shop.put({**sent.headers, **counted}, sent.body)

    # Then it is the same message that failed again
    wait_until(lambda: site.count(FAILURES) == 3, DEADLINE)
    assert site.count("SELECT count(*) FROM failed_messages") == 1


def test_a_queue_with_an_at_sign_in_its_name_gets_its_own_messages_back(site: Site) -> None:
    # Given a queue whose whole name stands in the failure, and another one without what is behind @
    whole = site.shop.declare(f"{site.shop.orders}@eu")
    site.shop.put({"NServiceBus.FailedQ": whole, "NServiceBus.MessageId": "1"}, b"invoice")
    site.shop.put(
        {"NServiceBus.FailedQ": f"{site.shop.orders}@host-1", "NServiceBus.MessageId": "2"},
        b"order",
    )
    service = site.host.start_ready()
    wait_until(lambda: site.count(FAILURES) == 2, DEADLINE)

    with service.http as http:
        assert http.post("/api/errors/retry/all").status_code == 202

    # Then each goes where it failed: an @ is a machine only where there is no such queue
    assert [each.body for each in site.shop.take(whole, 1)] == [b"invoice"]
    assert [each.body for each in site.shop.take(site.shop.orders, 1)] == [b"order"]
    site.shop.delete(whole)
