"""Somebody follows what happens, while it happens; and reads afterwards what became of a message."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.readers import Reader
from tests.support.service import Service
from tests.support.waiting import wait_until

# The type of the queues makes no difference here.
BOTH = pytest.mark.parametrize(
    "kind", [pytest.param("classic", marks=RABBITMQ_AND_POSTGRES), "embedded"]
)
pytestmark = pytest.mark.journey

SOON = 1.0
"""Seconds within which an event is told after its commit."""

Follow = Callable[[Service], Reader]


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Give a function that begins to follow; all leave at the end."""
    with ExitStack() as stack:

        def begin(service: Service) -> Reader:
            with service.http as http:
                reader = Reader(str(http.base_url))
            stack.callback(reader.leave)
            return reader

        yield begin


def measure(reader: Reader, kind: str, act: Callable[[], Any]) -> float:
    """Do it; return after how many seconds an event of this kind came that was not there."""
    before = reader.kinds.count(kind)
    act()
    done = time.monotonic()
    wait_until(lambda: reader.kinds.count(kind) > before, 30, kind)
    return time.monotonic() - done


def measure_acts(site: Site, service: Service, reader: Reader, number: int) -> dict[str, float]:
    """Do one act of each kind; return after how many seconds each was told."""
    site.shop.fail(3)
    unresolved = "/api/errors?status=unresolved"
    with service.http as http:
        wait_until(lambda: len(http.get(unresolved).json()) == 3, 30)
        one, two, three = (each["id"] for each in http.get(unresolved).json())
        redirect = {"fromphysicaladdress": f"a{number}", "tophysicaladdress": "b"}
        resolve = {"uniquemessageids": [three]}
        delays = {
            "retry_asked": measure(
                reader, "retry_asked", lambda: http.post(f"/api/errors/{one}/retry")
            ),
            "message_archived": measure(
                reader, "message_archived", lambda: http.post(f"/api/errors/{two}/archive")
            ),
            "message_resolved": measure(
                reader,
                "message_resolved",
                lambda: http.patch("/api/pendingretries/resolve", json=resolve),
            ),
            "redirect_created": measure(
                reader, "redirect_created", lambda: http.post("/api/redirects", json=redirect)
            ),
        }
        completed = "SELECT count(*) FROM retry_operations WHERE state = 'completed'"
        wait_until(lambda: site.count(completed) == number, 30)
        ended = time.monotonic()
        wait_until(lambda: reader.kinds.count("operation_completed") == number, 30)
        return {**delays, "operation_completed": time.monotonic() - ended}


@pytest.mark.alone
@BOTH
def test_each_act_is_told_within_a_second(site: Site, follow: Follow) -> None:
    service = site.host.start_ready()
    reader = follow(service)

    turns = [measure_acts(site, service, reader, number) for number in (1, 2, 3)]

    # The least of three: the machine itself may stand still for a second.
    least = {kind: min(turn[kind] for turn in turns) for kind in turns[0]}
    assert {kind: delay for kind, delay in least.items() if delay > SOON} == {}


@pytest.mark.alone
@BOTH
def test_a_process_tells_what_another_does(site: Site, follow: Follow) -> None:
    first, second = site.host.start_ready("api"), site.host.start_ready("api")
    reader = follow(first)

    with second.http as http:
        delays = [
            measure(reader, "retry_asked", lambda: http.post("/api/errors/retry/all"))
            for _ in range(3)
        ]

    assert min(delays) < SOON


@BOTH
def test_a_message_tells_what_became_of_it_in_order(site: Site) -> None:
    service = site.host.start_ready()
    site.shop.fail()
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").json(), 30)
        key = http.get("/api/errors").json()[0]["id"]

        def told() -> list[str]:
            return [each["kind"] for each in http.get(f"/api/errors/{key}/events").json()]

        site.shop.delete(site.shop.orders)
        http.post(f"/api/errors/{key}/retry")
        wait_until(lambda: "retry_returned" in told(), 30)
        site.shop.declare(site.shop.orders)
        http.post(f"/api/errors/{key}/retry")
        (retried,) = site.shop.take(site.shop.orders, 1)
        # A consumer may be quicker than the record of what was sent; this one is not.
        wait_until(lambda: told().count("sent") == 1, 30)
        site.shop.fail_again(retried)
        wait_until(lambda: told().count("failed") == 2, 30)
        http.post(f"/api/errors/{key}/retry")
        (again,) = site.shop.take(site.shop.orders, 1)
        wait_until(lambda: told().count("sent") == 2, 30)
        site.shop.confirm(again)
        wait_until(lambda: "confirmed" in told(), 30)

        # The batch of the last retry may be alive still: `claimed` is told as long as it is.
        assert [kind for kind in told() if kind != "claimed"] == [
            "failed",
            *("retry_asked", "sending", "retry_returned"),
            *("retry_asked", "sending", "sent", "failed"),
            *("retry_asked", "sending", "sent", "confirmed"),
        ]


@BOTH
def test_a_service_with_fifty_readers_stops_in_time(site: Site, follow: Follow) -> None:
    service = site.host.start_ready()
    readers = [follow(service) for _ in range(50)]

    assert service.stop() == 0

    assert all(each.ended.wait(10) for each in readers)
    assert service.find("service.part_failed") == []


@pytest.mark.parametrize("kind", ["embedded"])
def test_the_next_of_a_hundred_readers_is_to_come_again_later(site: Site, follow: Follow) -> None:
    service = site.host.start_ready("api")
    readers = [follow(service) for _ in range(100)]
    with service.http as http:
        refused = http.get("/api/events")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")

        readers[0].leave()

        wait_until(lambda: _status(http) == 200, 30)


def _status(http: httpx.Client) -> int:
    with http.stream("GET", "/api/events") as answer:
        return answer.status_code
