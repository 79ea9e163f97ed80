"""A process is killed while somebody asks it for something; the same request again does it once."""

import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, STORED, Place
from tests.support.disposing import make_dead
from tests.support.effects import REQUEST_POINTS
from tests.support.waiting import wait_until

DEADLINE = 60
KEY = {"Idempotency-Key": "the same"}


def first(place: Place) -> str:
    """Return the id of the first message, whatever was done to it since."""
    return str(place.query("SELECT unique_message_id FROM failed_messages ORDER BY number")[0][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, the point at which it is killed, and what is true when it is done.

    `{id}` in its path is the first message; `prepare` brings the messages to where it applies.
    `retried` is how many messages it sends back.
    """

    point: str
    name: str
    method: str
    path: str
    body: Callable[[Place], Any] = lambda _place: None
    done: str
    expected: int
    headers: Mapping[str, str]
    prepare: Callable[[Place], object] = lambda _place: None
    retried: int = 0

    def send(self, http: httpx.Client, place: Place) -> httpx.Response:
        """Send it once."""
        body = self.body(place)
        path = self.path.format(id=first(place))
        return http.request(self.method, path, json=body, headers=dict(self.headers))

    def __str__(self) -> str:
        return f"{self.name}-{self.point}"


def asked(**fields: Any) -> list[Asked]:
    """Return a request with each of the two points."""
    return [Asked(point=point, **{"headers": {}, **fields}) for point in REQUEST_POINTS]


REQUESTS = [
    *asked(
        name="retry",
        method="POST",
        path="/api/errors/retry/all",
        done="SELECT count(*) FROM retry_operations WHERE state = 'completed'",
        expected=1,
        headers=KEY,
        retried=COUNT,
    ),
    *asked(
        name="revive",
        method="POST",
        path="/api/errors/{id}/revive",
        prepare=lambda place: make_dead(place.database, first(place)),
        done="SELECT count(*) FROM retry_operations WHERE state = 'completed'",
        expected=1,
        headers=KEY,
        retried=1,
    ),
    *asked(
        name="dead",
        method="POST",
        path="/api/errors/{id}/dead",
        body=lambda _place: {"why": "hopeless"},
        done="SELECT count(*) FROM event_log WHERE kind = 'message_declared_dead'",
        expected=1,
    ),
    *asked(
        name="archive",
        method="POST",
        path="/api/errors/archive",
        body=Place.ids,
        done="SELECT count(*) FROM failed_messages WHERE status = 'archived'",
        expected=COUNT,
    ),
    *asked(
        name="redirect",
        method="POST",
        path="/api/redirects",
        body=lambda _place: {"fromphysicaladdress": "orders", "tophysicaladdress": "orders.new"},
        done="SELECT count(*) FROM message_redirects",
        expected=1,
    ),
]


@pytest.mark.parametrize(
    ("combination", "request_"), everywhere(REQUESTS, first=2), indirect=["combination"]
)
def test_a_request_that_is_repeated_is_done_once(
    request_: Asked, place: Place, tally: Tally
) -> None:
    # Given a process that dies over a request
    failed = place.shop.fail(COUNT)
    doomed = place.host.start(crash_at=request_.point)
    with doomed.http as http:
        wait_until(lambda: place.count(STORED) == COUNT, DEADLINE, "all are stored")
        request_.prepare(place)
        with suppress(httpx.TransportError):
            request_.send(http, place)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL

    # When it is sent again to the next one
    with place.host.start().http as http:
        request_.send(http, place)

        # Then it is done once
        wait_until(lambda: place.count(request_.done) == request_.expected, DEADLINE, "done")
    sent = place.shop.take(place.shop.orders, request_.retried)
    copies = Counter(each.properties.message_id for each in sent)
    tally.add(request_.point, request_.retried - len(copies), len(sent) - len(copies))
    assert len(sent) == len(copies) == request_.retried
    assert copies.keys() <= {*failed}
    assert place.broken_rules() == []
