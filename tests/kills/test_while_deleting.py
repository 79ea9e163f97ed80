"""A process is killed while it deletes what is old; the next one deletes the rest, and no more."""

import signal

import pytest

from retrier.domain.retention import CHUNK
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import ON_SQS, STORED, Place
from tests.support.effects import RETENTION_POINTS
from tests.support.waiting import wait_until

DEADLINE = 60
KEPT = 5
"""As in AGE."""
OLD = CHUNK + 10
LEFT = {"retention.deleted": OLD - CHUNK, "retention.swept": 0}
"""How many old messages the kill leaves."""
DELETED = "SELECT coalesce(sum(count), 0) FROM ledger WHERE entry = 'deleted'"
AGE = (
    "UPDATE failed_messages SET status = 'archived', last_modified = '2020-01-01' "
    "WHERE number >= (SELECT min(number) + 5 FROM failed_messages)"
)


@pytest.mark.parametrize(
    ("combination", "point"),
    everywhere(RETENTION_POINTS, first=4, besides=ON_SQS),
    indirect=["combination"],
)
def test_what_was_deleted_is_counted_and_the_rest_goes_later(
    point: str, place: Place, tally: Tally
) -> None:
    # Given old messages, and some that nobody has dealt with
    place.shop.fail(KEPT + OLD)
    with place.host.start().http:
        wait_until(lambda: place.count(STORED) == KEPT + OLD, DEADLINE, "all are stored")
    place.host.services[-1].stop()
    place.execute(AGE)

    # When the process that deletes them is killed
    doomed = place.host.start(crash_at=point)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL

    # Then what it deleted is counted
    assert place.count(STORED) == KEPT + LEFT[point]
    assert place.count(DELETED) == OLD - LEFT[point]
    assert place.broken_rules() == []

    # And the next one deletes the rest
    place.host.start()
    wait_until(lambda: place.count(STORED) == KEPT, DEADLINE, "the rest is deleted")
    wait_until(lambda: place.count(DELETED) == OLD, DEADLINE, "all is counted")
    tally.add(point, 0, 0)
    assert place.broken_rules() == []
