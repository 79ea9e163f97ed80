"""The disk of the SQLite database is full while there is work."""

import resource
from pathlib import Path

import pytest

from tests.faults.conftest import open_site
from tests.faults.work import begin_work, check
from tests.support.databases import sqlite_url
from tests.support.private_servers import PrivateRabbitMQ
from tests.support.waiting import let_pass

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq]

FULL = 6
NOTHING = 1


def test_a_full_disk_is_waited_for(broker: PrivateRabbitMQ, tmp_path: Path) -> None:
    with open_site(broker, sqlite_url(tmp_path), tmp_path) as site:
        work = begin_work(site, broker.url)
        work.wait_for_the_middle()

        # When none of the process's writes to a file succeeds any more
        with work.fault():
            before = resource.prlimit(work.service.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(work.service.pid, resource.RLIMIT_FSIZE, (NOTHING, before[1]))
            let_pass(FULL)
            resource.prlimit(work.service.pid, resource.RLIMIT_FSIZE, before)

        work.must_finish()
        check(work)
