"""The broker gets into trouble while somebody sends a failed import: the answer comes, and is true."""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Any

import httpx
import pytest

from retrier.transport.sender import ANSWER_WITHIN
from tests.journeys.conftest import Site
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

KEPT = "SELECT count(*) FROM failed_imports"
CONNECTING = 10
"""Seconds beside the wait for the answer: a broker that is frozen accepts and says nothing."""
Trouble = Callable[[PrivateRabbitMQ], AbstractContextManager[object]]


@contextmanager
def stopped(broker: PrivateRabbitMQ) -> Any:
    """Let the broker be away for a while."""
    broker.stop()
    try:
        yield
    finally:
        broker.start()


TROUBLES: dict[str, Trouble] = {
    "an alarm": PrivateRabbitMQ.short_of_memory,
    "frozen": PrivateRabbitMQ.frozen,
    "stopped": stopped,
}


def send(http: httpx.Client, site: Site) -> httpx.Response:
    (shown,) = http.get("/api/imports").json()
    return http.post(f"/api/imports/{shown['id']}/send", json={"to": site.shop.orders})


@pytest.mark.parametrize("name", TROUBLES)
def test_it_is_answered_in_time_and_nothing_is_in_doubt(
    name: str, site: Site, broker: PrivateRabbitMQ
) -> None:
    # Given a failed import
    site.shop.put_nonsense()
    with site.host.start_ready().http as http:
        wait_until(lambda: site.count(KEPT) == 1, 30, "it is kept")

        # When it is sent while the broker is in trouble
        with TROUBLES[name](broker):
            began = monotonic()
            answer = send(http, site)
            took = monotonic() - began

        # Then that is told in time, and it is as it was
        (shown,) = http.get("/api/imports").json()
        assert answer.status_code == 503, answer.text
        assert took < ANSWER_WITHIN + CONNECTING
        assert (shown["state"], "send" in shown) == ("kept", False)

        # and it can be sent when the trouble is over
        wait_until(lambda: send(http, site).status_code == 202, 60, "it is sent")
    assert site.count(KEPT) == 0
