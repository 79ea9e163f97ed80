"""A process is killed while it sends copies to the log queue; the next one sends what is left."""

import signal
from collections import Counter

import pytest

from retrier.domain.headers import LOGGED_ID
from retrier.events.processor import OutgoingPublished
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, WINDOW, Place
from tests.support.waiting import wait_until

DEADLINE = 60
COPYING = [OutgoingPublished.name]
WAITING = "SELECT count(*) FROM outgoing"
ATTEMPTS = "SELECT count(*) FROM processing_attempts"


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(COPYING, first=2), indirect=["combination"]
)
def test_every_copy_is_sent_and_at_most_a_window_twice(
    point: str, place: Place, tally: Tally
) -> None:
    log = place.shop.declare(place.beside(place.shop.error, "log"))
    place.host.configure("ingestion", forward_to=log)
    place.shop.fail(COUNT)

    doomed = place.host.start(crash_at=f"{point}:2")
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    place.host.start()

    wait_until(
        lambda: place.count(ATTEMPTS) == COUNT and not place.count(WAITING), DEADLINE, "all sent"
    )
    sent = Counter(each.headers[LOGGED_ID] for each in place.shop.take(log, COUNT))
    place.shop.delete(log)
    doubled = sum(sent.values()) - len(sent)
    tally.add(point, COUNT - len(sent), doubled)
    assert set(sent) == {*place.ids()}
    assert 0 < doubled <= WINDOW
    assert place.broken_rules() == []
