"""A shop on SQS: its consumer fails three times, SQS moves the message, and it is retried."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.adding_up import assert_all_adds_up
from tests.support.databases import sqlite_url
from tests.support.forked_service import ForkingHost
from tests.support.service import Service, hosted
from tests.support.sqs_server import URL, SqsServer, arn
from tests.support.sqs_shop import SqsSent, SqsShop, opened_sqs_shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

Opened = tuple[SqsShop, Service, httpx.Client]


@contextmanager
def opened(server: SqsServer, folder: Path, *, fifo: bool = False) -> Iterator[Opened]:
    """Give a shop and a service, and what asks it."""
    instance = f"test-{uuid4().hex[:12]}"
    with opened_sqs_shop(server, instance, fifo=fifo) as shop:
        settings = {
            "instance": instance,
            "broker": {"url": URL, "transport_options": server.options()},
            "database": {"url": sqlite_url(folder)},
            "ingestion": {"error_queues": [shop.error]},
            "api": {"port": 0},
        }
        with hosted(folder, settings, ForkingHost) as host:
            service = host.start_ready()
            with service.http as http:
                yield shop, service, http
        assert_all_adds_up(host.config)


def listed(http: httpx.Client, count: int) -> list[dict[str, Any]]:
    """Wait until so many are unresolved, and return them."""
    path = "/api/errors?status=unresolved"
    wait_until(lambda: http.get(path).headers["Total-Count"] == str(count), 60, f"{count} failed")
    found: list[dict[str, Any]] = http.get(path).json()
    return found


def without_ours(sent: SqsSent) -> dict[str, Any]:
    ours = ("Retrier.", "ServiceControl.")
    return {name: each for name, each in sent.attributes.items() if not name.startswith(ours)}


def test_what_fails_three_times_is_kept_retried_and_known_again(
    sqs_server: SqsServer, tmp_path: Path
) -> None:
    # Given twelve orders over which a consumer failed three times, so that SQS moved them
    with opened(sqs_server, tmp_path) as (shop, _, http):
        sent = shop.fail(12)
        failed = listed(http, 12)

        # Then they are listed with the queue where they failed
        assert {each["receiving_endpoint"]["name"] for each in failed} == {shop.orders}

        # When one is retried
        one = failed[0]["id"]
        http.post(f"/api/errors/{one}/retry")

        # Then it arrives as it was
        (again,) = shop.take(1)
        (original,) = [each for each in sent if each.body == again.body]
        assert without_ours(again) == original.attributes

        # When it fails three times more
        shop.send([again])
        shop.fail_all(1)

        # Then it is the same message, and no thirteenth
        listed(http, 12)
        attempts = http.get(f"/api/errors/{one}").json()["number_of_processing_attempts"]
        assert attempts == 2

        # When all are retried
        http.post("/api/errors/retry/all")

        # Then each arrives exactly once
        taken = shop.take(12)
        assert sorted(each.body for each in taken) == sorted(each.body for each in sent)

        # And a confirmation resolves
        shop.confirm(next(each for each in taken if each.body == again.body))
        wait_until(lambda: http.get(f"/api/errors/{one}").json()["status"] == "resolved", 30)


def test_a_retry_of_a_group_leaves_the_other_groups(sqs_server: SqsServer, tmp_path: Path) -> None:
    # Given two causes, as the consumer has stated them
    with opened(sqs_server, tmp_path) as (shop, _, http):
        shop.give_up(5, "Shop.Timeout")
        broken = shop.give_up(4, "Shop.Broken")
        listed(http, 9)
        groups = http.get("/api/recoverability/groups").json()
        (group,) = [each for each in groups if "Shop.Broken" in each["title"]]

        # When one group is retried
        http.post(f"/api/recoverability/groups/{group['id']}/errors/retry")

        # Then its messages arrive, each once, and the others stay unresolved
        taken = shop.take(4)
        assert sorted(each.body for each in taken) == sorted(each.body for each in broken)
        left = listed(http, 5)
        assert {each["exception"]["exception_type"] for each in left} == {"Shop.Timeout"}


def ask_for_all(http: httpx.Client, **terms: object) -> str:
    asked = {"selection": {"all": True}, **terms}
    return str(http.post("/api/operations", json=asked).json()["operation_id"])


def show(http: httpx.Client, operation: str) -> dict[str, Any]:
    shown: dict[str, Any] = http.get(f"/api/operations/{operation}").json()
    return shown


def test_a_canary_that_fails_again_holds_the_rest_back(
    sqs_server: SqsServer, tmp_path: Path
) -> None:
    # Given a consumer that fails once more over what is sent first
    with opened(sqs_server, tmp_path) as (shop, _, http):
        sent = shop.fail(12)
        listed(http, 12)
        operation = ask_for_all(http, canary=3, canary_wait="2s")
        shop.await_orders(3)
        shop.fail_all(3)

        # When they are back, then it stands still and nothing else was sent
        wait_until(lambda: show(http, operation)["state"] == "paused", 60, "it is paused")
        assert show(http, operation)["waits_because"] == "3 of 3 came back: resume or cancel it"
        assert shop.is_empty(shop.orders)

        # And once it goes on, the rest arrives, each once
        http.patch(f"/api/operations/{operation}", json={"paused": False})
        taken = shop.take(9)
        assert len({each.body for each in taken}) == len(taken) == len(sent) - 3


def test_a_canary_that_is_confirmed_lets_the_rest_follow(
    sqs_server: SqsServer, tmp_path: Path
) -> None:
    with opened(sqs_server, tmp_path) as (shop, _, http):
        sent = shop.fail(12)
        listed(http, 12)
        operation = ask_for_all(http, canary=3, canary_wait="2s")

        first = shop.take(3)
        for each in first:
            shop.confirm(each)

        taken = first + shop.take(9)
        assert sorted(each.body for each in taken) == sorted(each.body for each in sent)
        wait_until(lambda: show(http, operation)["state"] == "completed", 60, "it is completed")


def test_a_retry_that_is_cancelled_in_the_middle_loses_and_doubles_nothing(
    sqs_server: SqsServer, tmp_path: Path
) -> None:
    # Given a retry of all that is under way, slowly
    count = 40
    with opened(sqs_server, tmp_path) as (shop, _, http):
        sent = shop.fail(count)
        listed(http, count)
        operation = ask_for_all(http, rate=4)
        first = shop.take(1)

        # When it is cancelled
        http.delete(f"/api/operations/{operation}")
        wait_until(lambda: show(http, operation)["state"] == "cancelled", 60, "it is cancelled")

        # Then what was not sent is unresolved
        first += shop.take(0)
        forwarded = show(http, operation)["forwarded"]
        assert 0 < forwarded == len(first) < count
        listed(http, count - forwarded)

        # And is sent by the next retry of all: everything has arrived once
        ask_for_all(http)
        taken = first + shop.take(count - forwarded)
        assert Counter(each.body for each in taken) == Counter(each.body for each in sent)


def test_a_retry_to_a_queue_that_is_gone_comes_back_with_the_reason(
    sqs_server: SqsServer, tmp_path: Path
) -> None:
    with opened(sqs_server, tmp_path) as (shop, service, http):
        shop.fail(1)
        listed(http, 1)
        shop.delete(shop.orders)

        http.post("/api/errors/retry/all")

        wait_until(lambda: service.find("message.reverted"), 60, "it is reverted")


def test_nothing_is_sent_to_the_queues_that_retrier_empties_by_any_name(
    sqs_server: SqsServer, tmp_path: Path
) -> None:
    with opened(sqs_server, tmp_path) as (shop, _, http):
        for queue in (shop.error, arn(shop.error), f"{shop.name}-staging", f"{shop.name}.staging"):
            asked = {"selection": {"all": True}, "destination": queue}
            redirect = {"fromphysicaladdress": shop.orders, "tophysicaladdress": queue}

            assert http.post("/api/operations", json=asked).status_code == 400
            assert http.post("/api/redirects", json=redirect).status_code == 400


def test_messages_of_a_group_go_back_in_their_order(sqs_server: SqsServer, tmp_path: Path) -> None:
    with opened(sqs_server, tmp_path, fifo=True) as (shop, _, http):
        sent = [*shop.fail(7, group="a"), *shop.fail(6, group="b")]
        listed(http, 13)

        http.post("/api/errors/retry/all")

        taken = shop.take(13)
        for group in ("a", "b"):
            came = [each.body for each in taken if each.group == group]
            assert came == [each.body for each in sent if each.group == group]
