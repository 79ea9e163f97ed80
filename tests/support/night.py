"""A night on call: three causes, one retry of which a part came back, and one queue that is held."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx

from retrier.clock import SystemClock
from tests.journeys.conftest import Site
from tests.support.shop import failure_headers
from tests.support.waiting import wait_until

DEADLINE = 120.0
WHY = "the warehouse has parcels again"
HELD_WHY = "the printer is on fire"
STOCK, CARD, PRINTER, TRUCK = (
    "Shop.OutOfStock",
    "Shop.CardRefused",
    "Shop.PrinterOnFire",
    "Shop.TruckMissing",
)
NEW = PRINTER
"""The cause that only came with the deploy."""
LABELS = "labels"


@dataclass(frozen=True, slots=True)
class Night:
    """What is true of it: `of` says how many messages failed for which cause."""

    http: httpx.Client
    of: Mapping[str, int]
    operation_id: str
    sent: int
    confirmed: int
    came_back: int
    held: int


def begin(site: Site, http: httpx.Client, count: int) -> Night:
    """Let so many messages fail, ada retry the first cause, and grace hold the queue of the third."""
    shop = site.shop
    of = {STOCK: count * 6 // 10, CARD: count * 3 // 10, PRINTER: count // 10}
    queues = {STOCK: shop.orders, CARD: "payments", PRINTER: LABELS}
    for queue in ("payments", LABELS):
        shop.declare(queue)
    yesterday = SystemClock().now() - timedelta(days=1)
    for cause, times in of.items():
        at = SystemClock().now() if cause == NEW else yesterday
        for number in range(times):
            shop.put(_headers(f"{cause}-{number}", cause, queues[cause], at), b'{"order":1}')
    _wait_for(http, sum(of.values()), status="unresolved")
    operation_id = _retry(http, STOCK, WHY)
    copies = shop.take(shop.orders, of[STOCK], DEADLINE)
    came_back = of[STOCK] // 3
    for number, sent in enumerate(copies):
        if number < came_back:
            failed = failure_headers(shop.orders) | _exception(TRUCK, SystemClock().now())
            shop.put({**sent.headers, **failed}, sent.body)
        else:
            shop.confirm(sent)
    _wait_for_outcomes(http, operation_id, came_back, of[STOCK] - came_back)
    held = {"for": "8h", "why": HELD_WHY}
    grace = {"X-Retrier-User": "grace"}
    http.post(f"/api/breakers/{LABELS}/open", json=held, headers=grace).raise_for_status()
    _retry(http, PRINTER, "tried too early")
    return Night(
        http=http,
        of=of,
        operation_id=operation_id,
        sent=of[STOCK],
        confirmed=of[STOCK] - came_back,
        came_back=came_back,
        held=of[PRINTER],
    )


def _headers(message_id: str, cause: str, queue: str, at: datetime) -> Mapping[str, Any]:
    return {
        "NServiceBus.MessageId": message_id,
        "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop",
        "NServiceBus.ProcessingEndpoint": "Sales",
        **failure_headers(queue),
        **_exception(cause, at),
    }


def _exception(cause: str, at: datetime) -> dict[str, Any]:
    return {
        "NServiceBus.ExceptionInfo.ExceptionType": cause,
        "NServiceBus.ExceptionInfo.StackTrace": f"{cause}: no\n   at {cause}.Do() in Do.cs:line 7",
        "NServiceBus.TimeOfFailure": at.strftime("%Y-%m-%d %H:%M:%S:%f Z"),
    }


def _wait_for(http: httpx.Client, count: int, **filters: str) -> None:
    def listed() -> bool:
        answer = http.get("/api/errors", params={**filters, "per_page": 1})
        return answer.headers["Total-Count"] == str(count)

    wait_until(listed, DEADLINE, f"{count} are listed")


def _retry(http: httpx.Client, cause: str, why: str) -> str:
    body = {"selection": {"exception_type": cause}, "why": why}
    ada = {"X-Retrier-User": "ada"}
    answer = http.post("/api/operations", json=body, headers=ada).raise_for_status()
    return str(answer.json()["operation_id"])


def _wait_for_outcomes(http: httpx.Client, key: str, came_back: int, confirmed: int) -> None:
    def known() -> bool:
        outcomes = http.get(f"/api/operations/{key}").json()["outcomes"]
        return (outcomes["came_back"], outcomes["confirmed"]) == (came_back, confirmed)

    wait_until(known, DEADLINE, "every retry has its outcome")
