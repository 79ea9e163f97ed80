"""A process is killed while a failed import is sent, or read again: nothing is sent by itself."""

import signal
from contextlib import suppress
from typing import Any

import httpx
import pytest

from retrier.events.service import ImportPublished, ImportStamped
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import STORED, Place
from tests.support.effects import IMPORT_POINTS, REQUEST_POINTS
from tests.support.service import Service
from tests.support.waiting import wait_until

DEADLINE = 60
SENDING = IMPORT_POINTS
ARRIVED = {ImportStamped.name: 0, ImportPublished.name: 1}
"""How many messages are on the queue after the kill."""
KEPT = "SELECT count(*) FROM failed_imports"
LONG_AGO = {
    "postgresql": "sending_since - interval '61 seconds'",
    "sqlite": "datetime(sending_since, '-61 seconds') || '.000000'",
}
LATER = "UPDATE failed_import_sends SET sending_since = {}"


def keep_one(place: Place, doomed: Service) -> str:
    """Let a message come that nobody can read; return the id of its import."""
    place.shop.put_nonsense()
    with doomed.http as http:
        wait_until(lambda: place.count(KEPT) == 1, DEADLINE, "it is kept")
        return str(http.get("/api/imports").json()[0]["id"])


def let_time_pass(place: Place) -> None:
    """Let the time go by in which whoever stamped it might still send it."""
    assert place.database is not None
    place.execute(LATER.format(LONG_AGO[place.database.engine.dialect.name]))


def die(service: Service, path: str, body: Any = None) -> None:
    with service.http as http, suppress(httpx.TransportError):
        http.post(path, json=body)
    assert service.wait_dead(DEADLINE) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(SENDING, first=1), indirect=["combination"]
)
def test_an_import_is_in_doubt_and_sent_again_only_by_a_person(
    point: str, place: Place, tally: Tally
) -> None:
    # Given a process that dies over a send
    doomed = place.host.start(crash_at=point)
    import_id = keep_one(place, doomed)
    path, body = f"/api/imports/{import_id}/send", {"to": place.shop.orders}
    die(doomed, path, body)

    # When another one runs
    with place.host.start().http as http:
        (shown,) = http.get("/api/imports").json()
        at_once = http.post(path, json={**body, "again": True})
        let_time_pass(place)
        unasked = http.post(path, json=body)
        reread = http.post(f"/api/imports/{import_id}/retry")

        # Then it is in doubt, and nobody has sent it
        assert (shown["state"], shown["send"]["to"]) == ("inDoubt", place.shop.orders)
        refused = (at_once, unasked, reread)
        assert [each.status_code for each in refused] == [409] * len(refused)
        assert place.shop.depth(place.shop.orders) == ARRIVED[point]
        assert place.broken_rules() == []

        # and a person who wants it to be sent again has it sent once
        assert http.post(path, json={**body, "again": True}).status_code == 202
        sent = place.shop.take(place.shop.orders, ARRIVED[point] + 1)
        assert len(sent) == ARRIVED[point] + 1
        assert {each.body for each in sent} == {b"?"}
        assert http.get("/api/imports").json() == []
    tally.add(point, 0, 0)
    assert place.broken_rules() == []


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(REQUEST_POINTS, first=3), indirect=["combination"]
)
def test_imports_that_are_read_again_become_one_message_each(
    point: str, place: Place, tally: Tally
) -> None:
    # Given an import, and settings by which it is understood
    first = place.host.start()
    keep_one(place, first)
    assert first.stop() == 0
    entry = {"queue": place.shop.error, "destination": place.shop.orders}
    place.host.configure("ingestion", error_queues=[entry])

    # When a process dies over the request, and the next one is asked the same
    die(place.host.start(crash_at=point), "/api/imports/retry")
    with place.host.start().http as http:
        http.post("/api/imports/retry")

    # Then it is one message, and counted once
    assert (place.count(STORED), place.count(KEPT)) == (1, 0)
    tally.add(f"{point} (imports)", 0, place.count(STORED) - 1)
    assert place.broken_rules() == []
