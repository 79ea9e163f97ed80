"""The same kills on SQS, where what a killed process had in hand comes back only after a time."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import text

from retrier.domain.headers import RETRY_ID, UNIQUE_MESSAGE_ID
from retrier.events.processor import EndMarkerSent, WindowSent
from retrier.store.engine.database import Database
from tests.kills.conftest import Tally
from tests.kills.scenes import SCENES, Scene, no_trouble
from tests.kills.sites import IN_DOUBT, STORED
from tests.kills.test_while_ingesting import BATCH, ONCE
from tests.kills.test_while_retrying import MOST
from tests.support.databases import open_database, path_of, sqlite_url
from tests.support.forked_service import ForkingHost
from tests.support.service import hosted
from tests.support.sqs_server import URL, SqsServer
from tests.support.sqs_shop import SqsShop, opened_sqs_shop
from tests.support.waiting import wait_until

COUNT, WINDOW, DEADLINE = 25, 10, 60
VISIBILITY = 3
"""Seconds until what a killed process had in hand comes back."""
KILLED = [
    each
    for each in SCENES
    if each.trouble is no_trouble and not each.without_broker and not each.refused
    # Without order there is no marker.
    if each.point != EndMarkerSent.name
]
RETRYING = [
    pytest.param(
        scene,
        fifo,
        id=f"{scene}-{'fifo' if fifo else 'standard'}",
        marks=[pytest.mark.kills, *([pytest.mark.short] if scene.point == WindowSent.name else [])],
    )
    for scene in KILLED
    for fifo in (False, True)
]


@dataclass(frozen=True, slots=True)
class Site:
    """A shop on SQS, a host for the service, and its database."""

    shop: SqsShop
    host: ForkingHost
    database: Database

    def query(self, sql: str) -> list[str]:
        """Return the first column of what a query answers."""
        with self.database.engine.connect() as conn:
            return [str(row[0]) for row in conn.execute(text(sql))]

    def die(self, crash_at: str, *, asking: bool, stopped: bool = False) -> None:
        """Let a process die at a point, after it was asked for a retry of all."""
        doomed = self.host.start(crash_at=crash_at)
        if asking:
            with doomed.http as http:
                wait_until(lambda: self.query(STORED) == [str(COUNT)], DEADLINE, "all are stored")
                with suppress(httpx.TransportError):  # it may die before it has answered
                    http.post("/api/errors/retry/all")
        if stopped:
            doomed.wait_ready(DEADLINE)
            doomed.process.send_signal(signal.SIGTERM)
        assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL


@contextmanager
def opened(server: SqsServer, folder: Path, upgraded: Path, *, fifo: bool) -> Iterator[Site]:
    """Give a site; nothing runs yet."""
    instance = f"test-kills-{uuid4().hex[:12]}"
    url = sqlite_url(folder)
    copyfile(upgraded, path_of(url))
    with opened_sqs_shop(server, instance, fifo=fifo) as shop:
        settings = {
            "instance": instance,
            "broker": {"url": URL, "transport_options": server.options(visibility=VISIBILITY)},
            "database": {"url": url},
            "processor": {"lease": "3s"},
            "ingestion": {"error_queues": [shop.error]},
            "retries": {"forwarding_window": WINDOW, "drain_timeout": f"{2 * VISIBILITY}s"},
            "api": {"port": 0},
        }
        database = open_database(url)
        with hosted(folder, settings, ForkingHost) as host:
            assert isinstance(host, ForkingHost)
            yield Site(shop, host, database)
        database.dispose()


@pytest.mark.parametrize(("scene", "fifo"), RETRYING)
def test_nothing_is_lost_and_only_what_was_in_doubt_is_doubled(
    scene: Scene,
    *,
    fifo: bool,
    sqs_server: SqsServer,
    upgraded_sqlite: Path,
    tmp_path: Path,
    tally: Tally,
    admitted: dict[str, str],
) -> None:
    with opened(sqs_server, tmp_path, upgraded_sqlite, fifo=fifo) as site:
        # Given a process that dies at the point, in the middle of a retry
        sent = site.shop.fail(COUNT, group="g" if fifo else None)
        site.die(scene.first or scene.crash_at, asking=True)
        if scene.first:
            site.die(scene.crash_at, asking=False, stopped=scene.stopped)
        doubt = set(site.query(IN_DOUBT))

        # When another one is started
        site.host.start()
        states = "SELECT state FROM retry_operations"
        wait_until(lambda: site.query(states) == ["completed"], DEADLINE, "it completes")

        # Then every message has arrived, and only those in doubt twice: none on FIFO
        taken = site.shop.take(COUNT)
        copies = Counter(each.texts()[UNIQUE_MESSAGE_ID] for each in taken)
        doubled = {each for each, number in copies.items() if number > 1}
        lost = {each.body for each in sent} - {each.body for each in taken}
        tally.add(scene.point, len(lost), len(taken) - len(copies))
        assert lost == set()
        assert len(taken) - len(copies) <= (0 if fifo else MOST[admitted[scene.point]])
        assert doubled <= doubt
        assert len({each.texts()[RETRY_ID] for each in taken}) == COUNT


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[pytest.mark.kills, *([pytest.mark.short] if not turn else [])])
        for turn, point in enumerate(ONCE)
    ],
)
def test_every_failure_is_stored_once(
    point: str, sqs_server: SqsServer, upgraded_sqlite: Path, tmp_path: Path, tally: Tally
) -> None:
    with opened(sqs_server, tmp_path, upgraded_sqlite, fifo=False) as site:
        site.shop.fail(COUNT)
        site.die(f"{point}:{BATCH}", asking=False)

        with site.host.start().http as http:

            def all_taken() -> bool:
                told = http.get("/api/errors").headers["Total-Count"]
                return told == str(COUNT) and site.shop.is_empty(site.shop.error)

            wait_until(all_taken, DEADLINE, "all stored")
        attempts = site.query("SELECT attempts FROM failed_messages")
        tally.add(point, COUNT - len(attempts), sum(map(int, attempts)) - len(attempts))
        assert attempts == ["1"] * COUNT
