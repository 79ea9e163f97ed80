"""A process is killed while it sends what a patch makes: the next one sends the same, and no other."""

from collections import Counter

import httpx
import pytest

from retrier.domain import headers
from retrier.events.processor import (
    BatchMarked,
    BatchStaged,
    CopiesAcked,
    RestMoved,
    RetrySentAlone,
    WindowRecorded,
    WindowSent,
    WindowStamped,
)
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.scenes import SCENES, Scene
from tests.kills.sites import COUNT, STORED, Place
from tests.kills.test_while_retrying import DEADLINE, die_at, finish
from tests.support.patching import put_plain
from tests.support.waiting import wait_until

PLAIN = 3
"""Messages that are no JSON: the patch cannot be applied to them."""
POINTS = {
    event.name
    for event in (
        BatchMarked,
        BatchStaged,
        CopiesAcked,
        RestMoved,
        RetrySentAlone,
        WindowRecorded,
        WindowSent,
        WindowStamped,
    )
}
PATCHING = [scene for scene in SCENES if scene.point in POINTS]
PATCH = {
    "headers": {"set": {"X-Region": "eu"}},
    "body": [{"op": "add", "path": "/region", "value": "eu"}],
}


def ask(http: httpx.Client, _place: Place, _scene: Scene) -> None:
    http.post("/api/operations", json={"selection": {"all": True}, "patch": PATCH})


def patched(message_id: str) -> bytes:
    return b'{"order":"%s","region":"eu"}' % message_id.encode()


@pytest.mark.parametrize(
    ("combination", "scene"),
    everywhere(PATCHING, first=2, covered=POINTS),
    indirect=["combination"],
)
def test_each_copy_is_what_the_patch_makes_and_what_it_cannot_make_is_never_sent(
    scene: Scene, place: Place, tally: Tally, admitted: dict[str, str]
) -> None:
    # Given a process that dies at the point, in the middle of a patched retry
    failed = place.shop.fail(COUNT - PLAIN)
    put_plain(place.shop, PLAIN)
    doubt = die_at(place, scene, ask)

    # When another one is started
    finish(place)

    # Then each message has arrived as the patch makes it, and only those in doubt twice
    sent = place.shop.take(place.shop.orders, len(failed))
    assert {(each.properties.message_id, each.body) for each in sent} == {
        (message_id, patched(message_id)) for message_id in failed
    }
    assert {each.headers["X-Region"] for each in sent} == {"eu"}
    copies = Counter(each.headers[headers.UNIQUE_MESSAGE_ID] for each in sent)
    tally.add(scene.point, len(failed) - len(copies), len(sent) - len(copies))
    assert len(sent) - len(copies) <= place.most_doubled(admitted[scene.point])
    assert {key for key, number in copies.items() if number > 1} <= doubt
    assert len({each.headers[headers.RETRY_ID] for each in sent}) == len(failed)
    # and what it cannot be applied to is unresolved, and counted
    counts = "SELECT total, forwarded, skipped, failed FROM retry_operations"
    assert place.query(counts) == [(COUNT, len(failed), 0, PLAIN)]
    unresolved = "SELECT count(*) FROM failed_messages WHERE status = 'unresolved'"
    assert place.count(unresolved) == PLAIN
    assert place.broken_rules() == []


@pytest.mark.parametrize(
    ("combination", "scene"), everywhere([PATCHING[0]], first=1), indirect=["combination"]
)
def test_a_copy_that_fails_again_after_a_kill_is_its_message(scene: Scene, place: Place) -> None:
    failed = place.shop.fail(COUNT)
    die_at(place, scene, ask)
    finish(place)

    for each in place.shop.take(place.shop.orders, COUNT):
        place.shop.fail_again(each)

    again = "SELECT count(*) FROM failed_messages WHERE attempts = 2 AND status = 'unresolved'"
    wait_until(lambda: place.count(again) == COUNT, DEADLINE, "all have failed again")
    assert place.count(STORED) == len(failed)
