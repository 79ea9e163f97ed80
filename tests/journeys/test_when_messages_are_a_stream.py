"""A stream whose head fails again and again: its consumer sees it in order, whoever asks for what."""

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from tests.journeys.conftest import ON_BOTH_BROKERS, RABBITMQ_AND_POSTGRES, Site
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

MESSAGES = 10
TIMES = 2
"""How often the first message fails once more."""
DEADLINE = 60
STRICT = "UPDATE failed_messages SET stream_rule = 'strict'"
STORED = "SELECT count(*) FROM failed_messages"
IN_ORDER = "SELECT message_id FROM failed_messages ORDER BY number"
BY_ITSELF = {
    "name": "bookings",
    "match": {},
    "attempts": 5,
    "backoff": {"kind": "fixed", "first": "1s"},
    "stream": "strict",
}
HELD = "SELECT count(*) FROM retry_operations WHERE passed_over"
SENT = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"
CONFIRMED = "SELECT count(*) FROM failed_messages WHERE resolution = 'confirmed'"


def change(site: Site, sql: str) -> None:
    """Change the database as a policy would."""
    engine = create_engine(site.database_url, poolclass=NullPool)
    with engine.begin() as conn:
        conn.execute(text(sql))


def ask_all(service: Service) -> None:
    with service.http as http:
        assert http.post("/api/errors/retry/all").status_code == 202


def ask_each_group(service: Service) -> None:
    with service.http as http:
        for group in http.get("/api/recoverability/groups").json():
            http.post(f"/api/recoverability/groups/{group['id']}/errors/retry")


def wait_for_failures(site: Site, message_id: str, count: int) -> None:
    """Wait until so many failures of a message are stored."""
    failures = (
        "SELECT count(*) FROM processing_attempts WHERE number = "  # noqa: S608 - an id of ours
        f"(SELECT number FROM failed_messages WHERE message_id = '{message_id}')"
    )
    wait_until(lambda: site.count(failures) == count, DEADLINE)


@pytest.fixture
def stored(site: Site) -> Callable[[], Service]:
    """Store a strict stream of messages; give what starts a service."""
    site.host.configure("ingestion", stream_header="Shop.Tenant")
    site.shop.fail(MESSAGES)
    service = site.host.start_ready()
    wait_until(lambda: site.count(STORED) == MESSAGES, DEADLINE)
    change(site, STRICT)
    return lambda: service


def test_a_stream_is_handled_in_order_by_bulk_group_and_two_instances(
    site: Site, stored: Callable[[], Service]
) -> None:
    # Given a second instance, which may become the processor, and several who ask at once
    service = stored()
    if not site.database_url.startswith("sqlite"):
        site.host.start_ready()
    order = [row[0] for row in site.query(IN_ORDER)]
    ask_all(service)
    ask_each_group(service)

    # When the first one fails twice more, and then all are confirmed
    seen: list[str] = []
    for turn in range(1, MESSAGES + TIMES + 1):
        (sent, *others) = site.shop.take(site.shop.orders, 1, DEADLINE)
        assert others == []
        seen.append(sent.headers["NServiceBus.MessageId"])
        if turn > TIMES:
            site.shop.confirm(sent)
            continue
        site.shop.fail_again(sent)
        wait_for_failures(site, order[0], turn + 1)
        ask_all(service)

    # Then none was overtaken
    assert seen == [order[0]] * TIMES + order
    wait_until(lambda: site.count(CONFIRMED) == MESSAGES, DEADLINE)


def test_a_kill_while_the_rest_is_held_lets_nothing_overtake(
    site: Site, stored: Callable[[], Service]
) -> None:
    service = stored()
    order = [row[0] for row in site.query(IN_ORDER)]
    ask_all(service)
    wait_until(lambda: site.count(HELD) == 1, DEADLINE)
    # A kill between sending and recording would send the first one twice, and rightly.
    wait_until(lambda: site.count(SENT) == 1, DEADLINE)

    service.kill()
    site.host.start_ready()

    seen = []
    for _ in order:
        (sent, *others) = site.shop.take(site.shop.orders, 1, DEADLINE)
        assert others == []
        seen.append(sent.headers["NServiceBus.MessageId"])
        site.shop.confirm(sent)
    assert seen == order


@pytest.mark.parametrize(
    "kind", [pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES), "embedded"], indirect=True
)
def test_a_stream_is_handled_in_order_under_a_policy_that_retries_it_by_itself(site: Site) -> None:
    # Given a strict rule that schedules all of them, and people who ask for all of them, too
    site.host.configure("ingestion", stream_header="Shop.Tenant")
    site.host.configure("policies", rules=[BY_ITSELF])
    site.shop.fail(MESSAGES)
    service = site.host.start_ready()
    wait_until(lambda: site.count(STORED) == MESSAGES, DEADLINE)
    if not site.database_url.startswith("sqlite"):
        site.host.start_ready()
    order = [row[0] for row in site.query(IN_ORDER)]
    ask_all(service)
    ask_each_group(service)

    # When the first one fails again, which schedules it once more, and then all are confirmed
    seen: list[str] = []
    for turn in range(MESSAGES + 1):
        (sent, *others) = site.shop.take(site.shop.orders, 1, DEADLINE)
        assert others == []
        seen.append(sent.headers["NServiceBus.MessageId"])
        (site.shop.confirm if turn else site.shop.fail_again)(sent)

    # Then it came back by itself, and none was overtaken
    assert seen == order[:1] + order
    wait_until(lambda: site.count(CONFIRMED) == MESSAGES, DEADLINE)


@pytest.mark.alone
@ON_BOTH_BROKERS
def test_a_stream_moves_as_fast_as_its_consumer_confirms(
    site: Site, stored: Callable[[], Service]
) -> None:
    began = time.monotonic()
    ask_all(stored())

    for _ in range(MESSAGES):
        (sent,) = site.shop.take(site.shop.orders, 1, DEADLINE)
        site.shop.confirm(sent)

    # Five a second were asked for; a machine under load gets by with two.
    took = timedelta(seconds=time.monotonic() - began)
    assert took < timedelta(seconds=MESSAGES / 2), took
