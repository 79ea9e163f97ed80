"""A process is killed while it archives many messages; the next one archives the rest, once."""

import signal
from contextlib import suppress

import httpx
import pytest

from retrier.domain.archive_operation import AT_ONCE
from retrier.store.recording import record_received
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import STORED, Place
from tests.kills.test_while_retrying import NOTHING
from tests.support.effects import ARCHIVE_POINTS
from tests.support.factories import failure
from tests.support.waiting import wait_until

COUNT = AT_ONCE + 20
"""More than are done at once, so two chunks."""
DEADLINE = 60
EVERYTHING = {"act": "archive", "selection": {"all": True}, "why": "a test"}
ARCHIVED = "SELECT count(*) FROM failed_messages WHERE status = 'archived'"
UNRESOLVED = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
DONE = "SELECT done FROM archive_operations WHERE act = 'archive'"
OVER = "SELECT count(*) FROM archive_operations WHERE state = 'completed'"
TOLD = "SELECT count(*) FROM event_log WHERE kind = 'archive_completed'"


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(ARCHIVE_POINTS, first=1), indirect=["combination"]
)
def test_the_rest_is_archived_by_the_next_process_and_all_of_it_can_be_undone(
    point: str, place: Place, tally: Tally
) -> None:
    # Given a process that dies while it archives
    shop = place.shop
    raw = NOTHING[place.reads_envelopes]
    made = [failure(raw=raw, queue=shop.orders, error_queue=shop.error) for _ in range(COUNT)]
    record_received(place.database, made, instance="test")
    doomed = place.host.start(crash_at=point)
    with doomed.http as http, suppress(httpx.TransportError):
        http.post("/api/archive_operations", json=EVERYTHING)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL

    # Then what it archived is counted
    assert place.count(DONE) == place.count(ARCHIVED)
    assert place.broken_rules() == []

    # When the next one is started, and nobody asks again
    with place.host.start().http as http:
        wait_until(lambda: place.count(OVER) == 1, DEADLINE, "it completes")

        # Then all are archived, each once
        assert (place.count(ARCHIVED), place.count(DONE), place.count(TOLD)) == (COUNT, COUNT, 1)

        # And all of them can be taken back
        (operation,) = http.get("/api/archive_operations").json()
        http.post(f"/api/archive_operations/{operation['id']}/undo")
        wait_until(lambda: place.count(OVER) == 2, DEADLINE, "it is undone")
    tally.add(point, COUNT - place.count(STORED), place.shop.depth(shop.orders))
    assert place.count(UNRESOLVED) == COUNT
    assert place.broken_rules() == []
