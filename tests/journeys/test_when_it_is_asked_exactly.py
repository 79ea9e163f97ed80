"""Some of what failed is asked for, after a look at what that would do: real servers and process."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.journeys.conftest import RABBITMQ_AND_POSTGRES, Site
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.journey,
    pytest.mark.parametrize(
        "kind", [pytest.param("quorum", marks=RABBITMQ_AND_POSTGRES)], indirect=True
    ),
]

EXCEPTIONS = ("Shop.OutOfStock", "Shop.NoFunds", "Shop.Timeout")
EARLY, LATE = "2026-05-04 12:00:00:000000 Z", "2026-05-04 14:00:00:000000 Z"
FAILED, WANTED = 3000, 200
IN_ORDER = "SELECT message_id FROM failed_messages ORDER BY number"
"""In the order in which they were stored: what the broker delivers at once is numbered together."""


def fail(site: Site, queues: tuple[str, str]) -> list[str]:
    """Let messages fail with three exceptions on two queues; return which of them are late."""
    late = []
    for number in range(FAILED):
        (sent,) = site.shop.make_failures(1, queues[number // 3 % 2])
        is_late = number // 6 % 2 == 1
        sent.properties.headers["NServiceBus.ExceptionInfo.ExceptionType"] = EXCEPTIONS[number % 3]
        sent.properties.headers["NServiceBus.TimeOfFailure"] = LATE if is_late else EARLY
        site.shop.channel.basic_publish("", site.shop.error, sent.body, sent.properties)
        late += [sent.properties.message_id] if is_late and number % 3 == 0 else []
    return late


def preview_when_looked_at(http: httpx.Client, body: object) -> Any:
    """Ask for a preview until the broker has said in time whether the queue is there."""
    shown: list[Any] = []

    def is_looked_at() -> bool:
        shown[:] = [http.post("/api/operations/preview", json=body).json()]
        return "not_looked_at" not in {each["kind"] for each in shown[0]["warnings"]}

    wait_until(is_looked_at, 60, "the broker has answered")
    return shown[0]


def test_exactly_what_the_preview_counted_is_sent(
    site: Site, queue_name: Callable[..., str]
) -> None:
    # Given 3,000 failures of three exceptions on two queues
    replay = queue_name("replay")
    late = fail(site, (site.shop.orders, site.shop.payments))
    service = site.host.start_ready()
    body = {
        "selection": {"exception_type": EXCEPTIONS[0], "failed_from": "2026-05-04T13:00:00Z"},
        "limit": WANTED,
        "destination": replay,
    }
    with service.http as http:
        wait_until(lambda: http.get("/api/errors").headers["Total-Count"] == str(FAILED), 60)

        # When a preview warns that the destination is missing, and it is made
        first = preview_when_looked_at(http, body)
        site.shop.declare(replay)
        preview = preview_when_looked_at(http, body)
        answer = http.post("/api/operations", json={**body, "plan": preview["plan"]})

        # Then exactly those are sent there, the oldest ones, and the rest stays
        assert [each["kind"] for each in first["warnings"]] == ["queue_missing"]
        assert preview["warnings"] == []
        total = min(WANTED, len(late))
        assert (preview["total"], answer.json()["total"]) == (total, total)
        arrived = site.shop.take(replay, total)
        wait_until(lambda: site.count("SELECT count(*) FROM retry_batches") == 0, 30)
    numbered = [row[0] for row in site.query(IN_ORDER) if row[0] in late]
    assert [sent.properties.message_id for sent in arrived] == numbered[:WANTED]
    left = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
    assert site.count(left) == FAILED - total
    assert service.stop() == 0
