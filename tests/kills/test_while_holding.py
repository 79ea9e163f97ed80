"""A process is killed while a stream holds messages, or when a person has released them."""

import signal
from collections.abc import Sequence
from contextlib import suppress

import httpx
import pytest

from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.events.processor import BatchMarked, WindowRecorded
from retrier.events.service import StreamReleased
from retrier.store.operation_requests import create_operation
from retrier.store.recording import record_received
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import Place
from tests.kills.test_while_retrying import NOTHING
from tests.support.factories import failure
from tests.support.service import Service
from tests.support.streams import ORDER, make_strict
from tests.support.waiting import wait_until

DEADLINE = 60
MESSAGES = 5
CONFIRMED = "SELECT count(*) FROM failed_messages WHERE resolution = 'confirmed'"
RELEASED = "SELECT count(*) FROM failed_messages WHERE released"


HOLDING = [BatchMarked.name, WindowRecorded.name]


def fail_in_stream(place: Place) -> Sequence[str]:
    """Let messages of one strict stream fail, and ask for all; return their ids in order."""
    assert place.database is not None
    raw, error = NOTHING[place.reads_envelopes], place.shop.error
    made = [
        failure(raw=raw, queue=place.shop.orders, error_queue=error, stream_id=ORDER)
        for _ in range(MESSAGES)
    ]
    record_received(place.database, made, instance="test")
    make_strict(place.database)
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="a test",
        requested_by="ada",
    )
    create_operation(place.database, request)
    return place.ids()


def take_one(place: Place) -> str:
    """Take the only message that is there, and confirm it; return its id."""
    (sent,) = place.shop.take(place.shop.orders, 1, DEADLINE)
    place.shop.confirm(sent)
    return str(sent.headers["ServiceControl.Retry.UniqueMessageId"])


def wait_dead(doomed: Service) -> None:
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL


@pytest.mark.parametrize(("combination", "point"), everywhere(HOLDING), indirect=["combination"])
def test_nothing_overtakes_after_a_kill_while_the_rest_is_held(
    point: str, place: Place, tally: Tally
) -> None:
    # Given a process that dies when the head is cut, or recorded as sent, and the rest is left out
    order = fail_in_stream(place)
    wait_dead(place.host.start(crash_at=point))
    assert place.broken_rules() == []

    # When the next one goes on, and each is confirmed in its turn
    place.host.start()
    seen = [take_one(place) for _ in order]

    # Then each was sent once, in order
    tally.add(point, MESSAGES - len(set(seen)), len(seen) - len(set(seen)))
    assert seen == list(order)
    wait_until(lambda: place.count(CONFIRMED) == MESSAGES, DEADLINE, "all are confirmed")
    assert place.shop.depth(place.shop.orders) == 0
    assert place.broken_rules() == []


@pytest.mark.parametrize(
    ("combination", "point"),
    everywhere([StreamReleased.name], first=len(HOLDING)),
    indirect=["combination"],
)
def test_what_was_released_goes_after_a_kill_though_its_head_has_no_outcome(
    point: str, place: Place, tally: Tally
) -> None:
    # Given a process that dies when a person has released the stream, and before it answers
    order = fail_in_stream(place)
    doomed = place.host.start(crash_at=point)
    (head,) = place.shop.take(place.shop.orders, 1, DEADLINE)
    with doomed.http as http, suppress(httpx.TransportError):
        http.post(f"/api/streams/{ORDER}/release", params={"queue": place.shop.orders})
    wait_dead(doomed)
    assert place.count(RELEASED) == MESSAGES - 1

    # When the next one goes on
    place.host.start()

    # Then the rest follows, each once
    sent = [head, *place.shop.take(place.shop.orders, MESSAGES - 1, DEADLINE)]
    seen = [each.headers["ServiceControl.Retry.UniqueMessageId"] for each in sent]
    tally.add(point, MESSAGES - len(set(seen)), len(seen) - len(set(seen)))
    assert sorted(seen) == sorted(order)
    assert place.broken_rules() == []
