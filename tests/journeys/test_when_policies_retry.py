"""With policies: what failed comes back by itself, later and later, until it is dead."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
import yaml

from retrier.domain.headers import RETRY_ID
from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.shop import failure_headers
from tests.support.waiting import let_pass, wait_until

pytestmark = [
    pytest.mark.journey,
    pytest.mark.parametrize(
        "kind", [pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES), "embedded"]
    ),
]

DEADLINE = 30.0
FIRST = 1.0
"""Seconds after the first failure."""
EARLY = 0.5
"""Seconds by which the clock of the machine may be corrected meanwhile."""
PAYMENTS = {
    "name": "payments",
    "match": {"exception": "Shop.*"},
    "attempts": 3,
    "backoff": {"kind": "exponential", "first": "1s", "factor": 2},
    "jitter": "none",
}
COUNT = "SELECT count(*) FROM failed_messages WHERE disposition = '{}' AND failure_count = {}"
DECIDED = "SELECT disposition, failure_count, disposition_reason, policy FROM failed_messages"


def write(site: Site, *rules: Any, **more: Any) -> None:
    """Put a section `policies` into the file of the settings."""
    settings = yaml.safe_load(site.host.config.read_text())
    policies = {"rules": list(rules), **more}
    site.host.config.write_text(yaml.safe_dump(settings | {"policies": policies}))


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.kills), 2])
def started(site: Site, request: pytest.FixtureRequest) -> Site:
    """Give a site with one or two services, in the order of their start."""
    write(site, PAYMENTS)
    for _ in range(request.param):
        site.host.start_ready()
    return site


def decided(site: Site, disposition: str, failures: int) -> bool:
    return site.count(COUNT.format(disposition, failures)) == 1


def take_one(site: Site) -> Any:
    (one,) = site.shop.take(site.shop.orders, 1, DEADLINE)
    return one


def take_after(site: Site, fail: Callable[[], object]) -> tuple[Any, float]:
    """Let a message fail; return the retry that comes by itself, and after how many seconds."""
    began = monotonic()
    fail()
    came = take_one(site)
    return came, monotonic() - began


def test_a_message_is_retried_later_and_later_and_is_dead_then(started: Site) -> None:
    site = started

    # Given a message that fails, and again after each retry
    first, waited = take_after(site, lambda: site.shop.fail(1))
    assert waited >= FIRST - EARLY
    second, waited = take_after(site, lambda: site.shop.fail_again(first))
    assert waited >= 2 * FIRST - EARLY

    # When it has failed as often as it may
    site.shop.fail_again(second)

    # Then it is dead, with the reason in words, and does not come a fourth time
    wait_until(lambda: decided(site, "dead", 3), DEADLINE, "it is dead")
    ((_, _, why, policy),) = site.query(DECIDED)
    assert why == "failed 3 times; rule payments gives up after 3 failures"
    assert policy.startswith("payments@")
    let_pass(4 * FIRST)
    assert site.shop.depth(site.shop.orders) == 0
    assert first.headers[RETRY_ID] != second.headers[RETRY_ID]


def test_a_revived_message_comes_at_once_and_its_count_begins_anew(started: Site) -> None:
    # Given a message that is dead at once
    site = started
    write(site, {**PAYMENTS, "attempts": 1})
    for service in site.host.services:
        wait_until(lambda one=service: one.find("policies.taken"), DEADLINE, "it is in force")
    site.shop.fail(1)
    wait_until(lambda: decided(site, "dead", 1), DEADLINE, "it is dead")
    write(site, {**PAYMENTS, "backoff": FIXED})
    for service in site.host.services:
        wait_until(lambda one=service: len(one.find("policies.taken")) == 2, DEADLINE, "in force")

    # When a person revives it, and it fails again
    with site.host.services[0].http as http:
        (item,) = http.get("/api/errors", params={"disposition": "dead"}).json()
        assert http.post(f"/api/errors/{item['id']}/revive").status_code == 202
        site.shop.fail_again(take_one(site))

        # Then it is scheduled, as after its first failure
        wait_until(lambda: decided(site, "scheduled", 1), DEADLINE, "its count has begun anew")
        assert http.post(f"/api/errors/{item['id']}/revive").status_code == 409
        assert http.post(f"/api/errors/{item['id']}/retry").status_code == 202
    site.shop.confirm(take_one(site))
    resolved = "SELECT count(*) FROM failed_messages WHERE status = 'resolved'"
    wait_until(lambda: site.count(resolved) == 1, DEADLINE, "it is resolved")


def test_each_failure_is_decided_by_the_first_rule_that_matches(site: Site) -> None:
    rules = [
        {"name": "once", "match": {"exception": "A"}, "attempts": 0, "backoff": FIXED},
        {
            "name": "never",
            "match": {"exception": "B"},
            "attempts": 9,
            "backoff": FIXED,
            "never": ["handler_exception"],
            "then": "manual",
        },
        {"name": "later", "match": {"exception": "C"}, "attempts": 2, "backoff": FIXED},
    ]
    write(site, *rules)
    site.host.start_ready()

    for exception in "ABCD":
        put(site, exception)

    found = "SELECT count(*) FROM failed_messages"
    wait_until(lambda: site.count(found) == 4, DEADLINE, "all are stored")
    by_exception = dict(
        site.query(
            "SELECT exception_type, disposition FROM v_failed_messages ORDER BY exception_type"
        )
    )
    assert by_exception == {"A": "dead", "B": "manual", "C": "scheduled", "D": "manual"}


FIXED = {"kind": "fixed", "first": "1h"}


def put(site: Site, exception: str) -> None:
    """Put a failed message on the error queue."""
    headers = failure_headers(site.shop.orders)
    headers["NServiceBus.ExceptionInfo.ExceptionType"] = exception
    headers["NServiceBus.MessageId"] = f"message {exception}"
    site.shop.put(headers, exception.encode())


def test_what_no_rule_matches_is_dead_if_the_settings_say_so(site: Site) -> None:
    write(site, PAYMENTS, default="dead")
    site.host.start_ready()

    put(site, "A")

    wait_until(lambda: decided(site, "dead", 1), DEADLINE, "it is dead")
    ((_, _, why, policy),) = site.query(DECIDED)
    assert why == "no rule matches the failure, and policies.default was dead"
    assert policy.startswith("default@")


def test_the_next_failure_follows_a_changed_file(site: Site) -> None:
    # Given a failure that the file leaves to a person
    write(site, PAYMENTS)
    service = site.host.start_ready()
    put(site, "A")
    wait_until(lambda: decided(site, "manual", 1), DEADLINE, "it waits for a person")

    # When the file changes
    write(site, {**PAYMENTS, "match": {}, "backoff": FIXED}, default="wait")
    wait_until(lambda: service.find("policies.taken"), DEADLINE, "the new set is in force")

    # Then the next failure is decided by it, and the first one keeps its decision
    put(site, "B")
    wait_until(lambda: decided(site, "scheduled", 1), DEADLINE, "it is scheduled")
    assert decided(site, "manual", 1)


def test_a_paused_standing_operation_holds_automatic_retries_and_no_others(site: Site) -> None:
    write(site, PAYMENTS)
    service = site.host.start_ready()
    site.shop.fail(1)
    came = take_one(site)
    with service.http as http:
        (standing,) = [
            each for each in http.get("/api/operations").json() if each["retry_type"] == "byPolicy"
        ]
        path = f"/api/operations/{standing['id']}"
        assert http.patch(path, json={"paused": True}).status_code == 200
        assert http.delete(path).status_code == 409
        site.shop.fail_again(came)
        wait_until(lambda: decided(site, "scheduled", 2), DEADLINE, "it is scheduled")
        let_pass(3 * FIRST)
        assert site.shop.depth(site.shop.orders) == 0

        (item,) = http.get("/api/errors").json()
        assert http.post(f"/api/errors/{item['id']}/retry").status_code == 202
        site.shop.fail_again(take_one(site))
        wait_until(lambda: decided(site, "scheduled", 1), DEADLINE, "the count begins anew")

        assert http.patch(path, json={"paused": False}).status_code == 200
    take_one(site)
