"""What a process says of the others, and that it says when nobody ingests."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrier.app.parts import Parts
from retrier.app.reports import ProcessReport
from retrier.domain.processes import NO_INGESTION
from retrier.events.event import Event
from retrier.settings import Broker, Database, Role, Settings
from retrier.store.processes import list_processes, note_process
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.frozen_clock import FrozenClock
from tests.support.parts import make_parts
from tests.support.processes import process

ALL = frozenset(Role)
API = frozenset({Role.API})


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def parts(tmp_path: Path, clock: FrozenClock, told: list[Event]) -> Iterator[Parts]:
    url = sqlite_url(tmp_path)
    settings = Settings(
        database=Database(url=url), broker=Broker(url=(f"embedded:///{tmp_path}/broker.db",))
    )
    made = make_parts(settings, told.append, open_upgraded(url))
    yield replace(made, clock=clock)
    made.db.dispose()


def test_processes_that_are_alike_are_counted(parts: Parts) -> None:
    report = ProcessReport(parts, ALL)

    report()

    assert report.describe() == (True, "1 process")


def test_one_that_differs_is_said_and_no_reason_not_to_be_ready(
    parts: Parts, told: list[Event]
) -> None:
    note_process(parts.db, process(host="two", pid=7, version="0.2.0"))
    report = ProcessReport(parts, ALL)

    report()
    report()

    ready, words = report.describe()
    assert ready
    assert words.startswith("2 processes; versions differ: ")
    assert "0.2.0 (process 7 on two)" in words
    assert [each.name for each in told] == ["processes.differ"]


def test_that_it_differs_no_more_is_said_once(parts: Parts, told: list[Event]) -> None:
    report = ProcessReport(parts, ALL)
    odd = process(version="0.2.0")
    note_process(parts.db, odd)
    report()
    note_process(parts.db, replace(odd, version=list_processes(parts.db)[0].version))
    for other in list_processes(parts.db):
        note_process(parts.db, replace(other, version=process().version, set_hash=""))

    report()

    assert "differ" not in report.describe()[1]
    assert [each.name for each in told] == ["processes.differ", "processes.agree"]


def test_an_api_without_ingestion_says_so_after_a_minute(parts: Parts, clock: FrozenClock) -> None:
    report = ProcessReport(parts, API)
    report()
    assert report.describe() == (True, "1 process")

    clock.advance(60)
    report()

    assert report.describe() == (True, f"1 process; {NO_INGESTION}")


def test_ingestion_that_is_back_is_not_missed(parts: Parts, clock: FrozenClock) -> None:
    report = ProcessReport(parts, API)
    clock.advance(60)
    note_process(parts.db, process(roles=("ingestion",)))

    report()

    assert report.describe() == (True, "2 processes")


def test_a_process_that_ends_is_forgotten(parts: Parts) -> None:
    report = ProcessReport(parts, ALL)
    report()

    report.stop()

    assert list_processes(parts.db) == ()
