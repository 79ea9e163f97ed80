"""A process is killed while it sends notices of dead messages; the next one sends what is left."""

import json
import signal
from collections import Counter

import pytest

from retrier.domain.copies import DeadMessage
from retrier.domain.headers import NOTICE_ID
from retrier.events.processor import OutgoingPublished
from retrier.store.outgoing import add_notices
from retrier.store.recording import record_received
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, WINDOW, Place
from tests.support.disposing import make_dead
from tests.support.factories import failure
from tests.support.waiting import wait_until

DEADLINE = 60
TELLING = [OutgoingPublished.name]
WAITING = "SELECT count(*) FROM outgoing"
DEAD = "SELECT number, attempt_id FROM failed_messages"


def let_all_die(place: Place, queue: str) -> None:
    """Store dead messages, each with a notice that waits."""
    db = place.database
    assert db is not None
    record_received(db, [failure(error_queue=place.shop.error) for _ in range(COUNT)], instance="x")
    make_dead(db, *place.ids())
    dead = [DeadMessage(number=row[0], attempt_id=row[1]) for row in place.query(DEAD)]
    db.transact(lambda tx: add_notices(tx, queue, dead))


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(TELLING, first=3), indirect=["combination"]
)
def test_every_notice_is_sent_and_one_that_comes_again_is_the_same(
    point: str, place: Place, tally: Tally
) -> None:
    queue = place.shop.declare(place.beside(place.shop.error, "notices"))
    let_all_die(place, queue)

    doomed = place.host.start(crash_at=f"{point}:2")
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    place.host.start()

    wait_until(lambda: not place.count(WAITING), DEADLINE, "all sent")
    came = place.shop.take(queue, COUNT)
    place.shop.delete(queue)
    notices = Counter((each.headers[NOTICE_ID], bytes(each.body)) for each in came)
    told = Counter(json.loads(body)["id"] for _, body in notices)
    doubled = sum(notices.values()) - len(notices)
    tally.add(point, COUNT - len(told), doubled)
    assert told == Counter(place.ids())
    assert 0 < doubled <= WINDOW
    assert place.broken_rules() == []
