"""A process is killed at every crash point of ingestion; the next one takes what is left."""

import signal

import pytest

from retrier.events.ingestion import (
    BatchAcked,
    BatchReceived,
    BatchStored,
    ErrorQueueOpened,
    StoredAlone,
)
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, STORED, Combination, Place
from tests.support.waiting import wait_until

DEADLINE = 60
BATCH = 3
"""The batch in which it dies: the first ones hold 1, 2 and 4 messages."""
OPENED = [ErrorQueueOpened.name]
ALONE = [StoredAlone.name]
ONCE = [
    BatchReceived.name,
    BatchStored.name,
    BatchAcked.name,
]
GUILTY = (
    "CREATE TRIGGER guilty BEFORE INSERT ON failed_messages WHEN NEW.message_id = '{}' "
    "BEGIN SELECT RAISE(ABORT, 'guilty'); END"
)
GUILTY_ON_POSTGRES = (
    "ALTER TABLE failed_messages ADD CONSTRAINT guilty CHECK (message_id <> '{}') NOT VALID"
)
INNOCENT = "ALTER TABLE failed_messages DROP CONSTRAINT guilty"
ATTEMPTS = "SELECT message_id, attempts FROM failed_messages"


def crash_at(point: str) -> str:
    return point if point == ErrorQueueOpened.name else f"{point}:{BATCH}"


def is_idle(place: Place) -> bool:
    return bool(place.shop.depth(place.shop.error) == 0)


def die_and_start_again(place: Place, point: str) -> None:
    doomed = place.host.start(crash_at=point)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL
    place.host.start()


@pytest.mark.parametrize(
    ("combination", "point"), everywhere([*OPENED, *ONCE], first=1), indirect=["combination"]
)
def test_every_failure_is_stored_once(point: str, place: Place, tally: Tally) -> None:
    failed = place.shop.fail(COUNT)

    die_and_start_again(place, crash_at(point))

    wait_until(lambda: place.count(STORED) >= COUNT and is_idle(place), DEADLINE, "all stored")
    attempts = dict(place.query(ATTEMPTS))
    tally.add(point, len(set(failed) - set(attempts)), sum(attempts.values()) - len(attempts))
    assert attempts == dict.fromkeys(failed, 1)
    assert place.count(STORED) == COUNT
    assert place.broken_rules() == []


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(ONCE, first=3), indirect=["combination"]
)
def test_every_confirmation_resolves_its_message(point: str, place: Place, tally: Tally) -> None:
    # Given messages that were retried and confirmed, while nobody ingested
    place.shop.fail(COUNT)
    service = place.host.start()
    with service.http as http:
        wait_until(lambda: place.count(STORED) == COUNT, DEADLINE, "all are stored")
        http.post("/api/errors/retry/all")
    sent = place.shop.take(place.shop.orders, COUNT)
    assert service.stop() == 0
    for each in sent:
        place.shop.confirm(each)

    die_and_start_again(place, crash_at(point))

    resolved = "SELECT count(*) FROM failed_messages WHERE status = 'resolved'"
    wait_until(lambda: place.count(resolved) == COUNT and is_idle(place), DEADLINE, "resolved")
    tally.add(f"{point} (confirming)", 0, place.count(STORED) - COUNT)
    assert place.count("SELECT count(*) FROM failed_message_retries") == 0
    assert place.count(STORED) == COUNT
    assert place.broken_rules() == []


@pytest.mark.parametrize(
    ("combination", "point"), everywhere(ALONE, first=5), indirect=["combination"]
)
def test_a_batch_stored_one_by_one_is_stored_once(
    combination: Combination, point: str, place: Place, tally: Tally
) -> None:
    # Given a message among others that the database refuses
    failed = place.shop.fail(COUNT)
    guilty = list(failed)[COUNT // 2]
    on_postgres = combination.database == "postgres"
    refuse = GUILTY_ON_POSTGRES if on_postgres else GUILTY
    place.execute(refuse.format(guilty))

    die_and_start_again(place, f"{point}:2")

    stored = COUNT - 1
    wait_until(lambda: place.count(STORED) >= stored and is_idle(place), DEADLINE, "all stored")
    if on_postgres:
        place.execute(INNOCENT)
    attempts = dict(place.query(ATTEMPTS))
    imports = place.count("SELECT count(*) FROM failed_imports")
    tally.add(point, COUNT - len(attempts) - imports, sum(attempts.values()) - len(attempts))
    assert attempts == dict.fromkeys(set(failed) - {guilty}, 1)
    assert imports == 1
    assert place.broken_rules() == []
