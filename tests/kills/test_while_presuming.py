"""A process is killed between two chunks of old pending retries; the next one does the rest."""

import signal
from datetime import timedelta

import pytest
from sqlalchemy import update

from retrier.events.service import ChunkPresumed
from retrier.store.pending import PRESUMED_AT_ONCE
from retrier.store.recording import record_received
from retrier.store.schema import failed_message_retries
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import STORED, Place
from tests.kills.test_while_retrying import NOTHING
from tests.support.factories import failure
from tests.support.waiting import wait_until

PRESUMING = [ChunkPresumed.name]
COUNT = PRESUMED_AT_ONCE + 20
DEADLINE = 60
SOON = {"RETRIER_RETRIES__PRESUMED_AFTER": "1s"}
OF_STATUS = "SELECT count(*) FROM failed_messages WHERE status = '{}'"
PRESUMED = "SELECT count(*) FROM failed_messages WHERE resolution = 'presumed'"
SENT = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"


def send_all(place: Place) -> None:
    """Let all messages have been sent back an hour ago, to consumers that confirm nothing."""
    shop = place.shop
    raw = NOTHING[place.reads_envelopes]
    made = [failure(raw=raw, queue=shop.orders, error_queue=shop.error) for _ in range(COUNT)]
    record_received(place.database, made, instance="test")
    service = place.host.start()
    with service.http as http:
        http.post("/api/errors/retry/all")
    wait_until(lambda: place.count(SENT) == COUNT, DEADLINE, "all are sent")
    completed = "SELECT count(*) FROM retry_operations WHERE state = 'completed'"
    wait_until(lambda: place.count(completed) == 1, DEADLINE, "it completes")
    assert service.stop() == 0
    # Else some are due at the first look of the next process, and the others at a later one.
    long_ago = place.database.read(lambda tx: tx.now) - timedelta(hours=1)
    sent = update(failed_message_retries).values(sending_since=long_ago, forwarded_at=long_ago)
    with place.database.engine.begin() as conn:
        conn.execute(sent)


@pytest.mark.parametrize(("combination", "point"), everywhere(PRESUMING), indirect=["combination"])
def test_a_chunk_is_presumed_as_a_whole_and_once(point: str, place: Place, tally: Tally) -> None:
    # Given a process that dies after the first chunk
    send_all(place)
    doomed = place.host.start(crash_at=point, environ=SOON)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    assert place.count(PRESUMED) == place.count(OF_STATUS.format("resolved")) == PRESUMED_AT_ONCE
    assert place.count(SENT) == COUNT - PRESUMED_AT_ONCE
    assert place.broken_rules() == []

    # When the next one does the rest
    place.host.start(environ=SOON)
    wait_until(lambda: place.count(PRESUMED) == COUNT, DEADLINE, "the rest is presumed")

    # Then none is missing, and nothing was sent again
    tally.add(point, COUNT - place.count(STORED), place.shop.depth(place.shop.orders) - COUNT)
    assert place.count(STORED) == COUNT
    assert place.shop.depth(place.shop.orders) == COUNT
    assert place.count("SELECT count(*) FROM failed_message_retries") == 0
    ended = "SELECT count(*) FROM ended_retries WHERE outcome = 'presumed'"
    assert place.count(ended) == COUNT
    assert place.broken_rules() == []
