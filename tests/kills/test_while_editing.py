"""A process is killed at every point that an edit comes to: one version is out, and it is the edit."""

import signal
from contextlib import suppress

import httpx
import pytest

from retrier.domain import headers
from retrier.events.processor import (
    BatchStaged,
    CompletionTried,
    CopiesAcked,
    CopiesPublished,
    StagingConnected,
    StagingQueuePurged,
    WindowRecorded,
    WindowSent,
    WindowStamped,
)
from retrier.events.service import RequestReceived, RequestRecorded
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import STORED, Place
from tests.support.effects import EDIT_POINTS
from tests.support.waiting import wait_until

EDITING = EDIT_POINTS
OF_EVERY_RETRY = [
    StagingConnected.name,
    StagingQueuePurged.name,
    CopiesPublished.name,
    BatchStaged.name,
    WindowStamped.name,
    WindowSent.name,
    WindowRecorded.name,
    CopiesAcked.name,
    CompletionTried.name,
]
POINTS = [RequestReceived.name, RequestRecorded.name, *EDIT_POINTS, *OF_EVERY_RETRY]
DEADLINE = 60
BODY = b'{"order": "mended"}'
IDS = "SELECT unique_message_id FROM failed_messages"
EDITS = "SELECT state FROM message_edits"
RESOLVED = "SELECT resolution FROM failed_messages WHERE status = 'resolved'"


def ask(http: httpx.Client, key: str) -> httpx.Response:
    edit = {"body": BODY.decode(), "send_broken": True}
    return http.post(f"/api/errors/{key}/edit", json=edit)


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(POINTS, covered=OF_EVERY_RETRY), indirect=["combination"]
)
def test_the_edited_message_is_out_and_the_other_one_is_not(
    point: str, place: Place, tally: Tally, admitted: dict[str, str]
) -> None:
    # Given a process that dies while a message is edited and all are retried
    place.shop.fail(1)
    doomed = place.host.start(crash_at=point)
    with doomed.http as http:
        wait_until(lambda: place.count(STORED) == 1, DEADLINE, "it is stored")
        ((key,),) = place.query(IDS)
        with suppress(httpx.TransportError):  # it dies before it has answered
            ask(http, key)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    assert place.broken_rules() == []

    # When another one is asked for the same, and for a retry of all
    with place.host.start().http as http:
        again = ask(http, key)
        assert again.status_code in (202, 409), again.text
        http.post("/api/errors/retry/all")
        wait_until(lambda: place.query(EDITS) == [("sent",)], DEADLINE, "it is sent")
        alive = "SELECT count(*) FROM retry_batches"
        wait_until(lambda: place.count(alive) == 0, DEADLINE, "no batch is left")

    # Then the edited version has arrived, perhaps twice, and the other one never
    sent = place.shop.take(place.shop.orders, 1)
    edited = [each for each in sent if each.headers.get(headers.EDIT_OF) == key]
    tally.add(point, 0, len(edited) - 1)
    assert len(edited) == len(sent)
    assert {bytes(each.body) for each in edited} == {BODY}
    assert len(edited) == 1 or (admitted[point] != "none" and not place.is_fifo)
    assert len({each.headers[headers.RETRY_ID] for each in edited}) == 1
    # and its message is resolved, as what was sent says
    assert place.query(RESOLVED) == [("edited",)]
    assert place.count("SELECT count(*) FROM failed_message_retries") == 0
    assert place.broken_rules() == []
