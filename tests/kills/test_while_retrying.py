"""A process is killed at every crash point of a retry; the next one finishes the work."""

import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest

from retrier.domain import headers
from retrier.domain.wire import Edit
from retrier.store.recording import record_received
from retrier.transport.embedded.broker_file import LARGEST_MESSAGE
from retrier.transport.redis.transport import LARGEST
from retrier.transport.sqs.properties import LARGEST as LARGEST_ENTRY
from tests.kills.conftest import Tally
from tests.kills.outage import Outage
from tests.kills.rotation import everywhere
from tests.kills.scenes import SCENES, Scene
from tests.kills.sites import COUNT, IN_DOUBT, STORED, Place
from tests.support.factories import failure
from tests.support.service import Service
from tests.support.waiting import wait_until

DEADLINE = 60
LARGEST_FRAME = 131_072
_TOO_LARGE = {"embedded": LARGEST_MESSAGE, "redis": LARGEST, "sqs": LARGEST_ENTRY}
Ask = Callable[[httpx.Client, Place, Scene], None]
"""Has the messages sent: over HTTP, or past the service."""

NOTHING = {True: b"{}", False: b"\x00\x00"}
"""No properties at all, in an envelope of Kombu's and in AMQP."""


def ask(http: httpx.Client, place: Place, scene: Scene) -> None:
    assert place.database is not None
    if scene.in_steps and place.database.sql.marks_at_once:
        http.post("/api/errors/retry", json=place.ids())
    else:
        http.post("/api/errors/retry/all")


def die_at(place: Place, scene: Scene, ask: Ask = ask) -> set[str]:
    """Let processes die as the scene has it; return what the last one left in doubt."""
    if scene.without_broker:
        die_without_broker(place, scene, ask)
    else:
        asked = place.host.start(crash_at=scene.first or scene.crash_at)
        ask_for_all(place, asked, scene, ask)
        assert asked.wait_dead(DEADLINE) == -signal.SIGKILL
    if scene.first is not None:
        with scene.trouble(place):
            die_again(place, scene)
    return {str(row[0]) for row in place.query(IN_DOUBT)}


def die_again(place: Place, scene: Scene) -> None:
    doomed = place.host.start(crash_at=scene.crash_at)
    if scene.stopped:
        doomed.wait_ready(DEADLINE)
        doomed.process.send_signal(signal.SIGTERM)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL


def die_without_broker(place: Place, scene: Scene, ask: Ask) -> None:
    with Outage(place) as outage:
        place.host.environ.update(outage.environ)
        doomed = place.host.start(crash_at=scene.crash_at)
        place.host.environ.clear()
        ask_for_all(place, doomed, scene, ask, before=outage.begin)
        assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL


def ask_for_all(
    place: Place,
    service: Service,
    scene: Scene,
    ask: Ask,
    before: Callable[[], None] = lambda: None,
) -> None:
    with service.http as http:
        wait_until(lambda: place.count(STORED) == COUNT, DEADLINE, "all are stored")
        if scene.refused:
            store_unsendable(place)
        before()
        with suppress(httpx.TransportError):  # it may die before it has answered
            ask(http, place, scene)


def store_unsendable(place: Place) -> None:
    """Store a message that no broker would have given us."""
    size = _TOO_LARGE.get(place.broker_url.partition(":")[0], LARGEST_FRAME)
    raw = place.codec.edit(NOTHING[place.reads_envelopes], Edit(set_headers={"stack": "x" * size}))
    shop = place.shop
    large = failure(raw=raw, queue=shop.orders, error_queue=shop.error)
    record_received(place.database, [large], instance="test")


def finish(place: Place) -> None:
    # Time that a batch waits for is no time that a test should.
    place.execute("UPDATE retry_batches SET not_before = NULL")
    place.host.start()
    state = "SELECT state FROM retry_operations"
    wait_until(lambda: place.query(state) == [("completed",)], DEADLINE, "it completes")


@pytest.mark.parametrize(("combination", "scene"), everywhere(SCENES), indirect=["combination"])
def test_nothing_is_lost_and_only_what_was_in_doubt_is_doubled(
    scene: Scene, place: Place, tally: Tally, admitted: dict[str, str]
) -> None:
    # Given a process that dies at the point, in the middle of a retry
    failed = place.shop.fail(COUNT)
    doubt = die_at(place, scene)

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
    # and all copies of a retry carry the same retry id, and all is recorded once
    assert len({each.headers[headers.RETRY_ID] for each in sent}) == COUNT
    counts = "SELECT total, forwarded, skipped, failed FROM retry_operations"
    assert place.query(counts) == [(COUNT + scene.refused, COUNT, 0, scene.refused)]
    claims = "SELECT count(*) FROM failed_message_retries WHERE forwarded_at IS NOT NULL"
    assert place.count(claims) == COUNT
    assert place.broken_rules() == []
