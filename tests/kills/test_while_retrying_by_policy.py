"""A process is killed at every crash point while it sends what is due by policy."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from retrier.domain import headers
from retrier.events.processor import BatchMarked, BatchStaged, RestMoved, WindowRecorded, WindowSent
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.scenes import SCENES, Scene
from tests.kills.sites import COUNT, Place
from tests.kills.test_while_retrying import DEADLINE, die_at
from tests.support.scheduling import schedule
from tests.support.waiting import wait_until

SHORT = (BatchMarked.name, BatchStaged.name, WindowSent.name, WindowRecorded.name, RestMoved.name)
"""Where the short form kills: it tries each point with a request for all as well."""
LEFT = (
    "SELECT count(*) FROM retry_operations o WHERE o.state <> 'waiting' OR EXISTS "
    "(SELECT 1 FROM failed_messages WHERE disposition = 'scheduled')"
)
"""Something that is due, or an operation that is not done with it."""


def schedule_all(_http: httpx.Client, place: Place, _scene: Scene) -> None:
    """Let everything be due by policy; the service is told by the database."""
    assert place.database is not None
    schedule(place.database)


def finish(place: Place) -> None:
    # Time that a batch waits for is no time that a test should.
    place.execute("UPDATE retry_batches SET not_before = NULL")
    place.host.start()
    wait_until(lambda: place.count(LEFT) == 0, DEADLINE, "nothing is due any more")


def find_cases() -> Iterator[Any]:
    """Yield what can happen, and let few of it belong to the short form: each takes ten seconds.

    PostgreSQL marks what is due in one transaction, so no process dies between its steps.
    """
    for case in everywhere(SCENES, first=3):
        combination, scene = case.values
        kept = [each for each in case.marks if each.name != "short" or scene.point in SHORT]
        if combination.database == "sqlite" or not scene.in_steps:
            yield pytest.param(*case.values, id=case.id, marks=kept)


@pytest.mark.parametrize(("combination", "scene"), list(find_cases()), indirect=["combination"])
def test_nothing_due_is_lost_and_only_what_was_in_doubt_is_doubled(
    scene: Scene, place: Place, tally: Tally, admitted: dict[str, str]
) -> None:
    # Given a process that dies at the point, while it sends what is due
    failed = place.shop.fail(COUNT)
    doubt = die_at(place, scene, schedule_all)

    # When another one is started
    finish(place)

    # Then every message has arrived, and only those in doubt twice
    sent = place.shop.take(place.shop.orders, COUNT)
    copies = Counter(each.headers[headers.UNIQUE_MESSAGE_ID] for each in sent)
    doubled = {unique_id for unique_id, number in copies.items() if number > 1}
    lost = set(failed) - {each.properties.message_id for each in sent}
    tally.add(scene.point, len(lost), len(sent) - len(copies))
    assert lost == set()
    assert len(sent) - len(copies) <= place.most_doubled(admitted[scene.point])
    assert doubled <= doubt
    # and the standing operation has counted each of them once
    counts = "SELECT total, forwarded, skipped, failed FROM retry_operations"
    total = COUNT + scene.refused
    assert place.query(counts) == [(total, COUNT, 0, scene.refused)]
    assert place.broken_rules() == []
