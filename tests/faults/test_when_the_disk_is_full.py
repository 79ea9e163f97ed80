"""The disk of the SQLite database is full while there is work."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import Begin, Roads, open_site
from tests.faults.work import Work, check
from tests.journeys.conftest import Site
from tests.support.databases import sqlite_url
from tests.support.full_disk import Disk
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.service import Service
from tests.support.waiting import let_pass

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq]

FULL = 6
NOTHING = 1


@pytest.fixture
def site(broker: PrivateRabbitMQ, tmp_path: Path) -> Iterator[Site]:
    """Give a site on SQLite."""
    with open_site(Roads(broker.url, sqlite_url(tmp_path)), tmp_path) as site:
        yield site


@contextmanager
def nothing_written(service: Service) -> Iterator[None]:
    """Let none of the process's writes to a file succeed for a while."""
    before = resource.prlimit(service.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (NOTHING, before[1]))
    yield
    resource.prlimit(service.pid, resource.RLIMIT_FSIZE, before)


def must_have_stood_still(work: Work) -> None:
    assert "ingestion.paused" in work.service.names()


def test_a_file_that_cannot_be_written_is_waited_for(site: Site, begin: Begin) -> None:
    work = begin(site)
    work.wait_for("forwarding")

    with work.fault(), nothing_written(work.service):
        let_pass(FULL)

    work.must_finish()
    must_have_stood_still(work)
    check(work, in_doubt=0)


def test_a_database_that_may_not_grow_is_waited_for(
    site: Site, begin: Begin, tmp_path: Path
) -> None:
    # Given a service whose database can be kept from growing (max_page_count)
    disk = Disk(tmp_path / "disk")
    site.host.environ.update(disk.prepare())
    work = begin(site)
    work.wait_for("forwarding")

    with work.fault(), disk.full():
        let_pass(FULL)

    work.must_finish()
    must_have_stood_still(work)
    check(work, in_doubt=0)
