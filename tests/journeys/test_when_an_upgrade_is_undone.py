"""The way back behind an upgrade, as docs/upgrading.md and docs/operations.md have it: by a backup."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import yaml

from tests.endurance.grounds import Grounds, kill_all, opened_grounds
from tests.endurance.versions import (
    NoHistory,
    VersionedHost,
    take_this_version,
    take_version_before,
)
from tests.support.databases import temporary_postgres
from tests.support.servers import pika_connection, psycopg_url
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.kills]

STORED = "SELECT count(*) FROM failed_messages"
UNRESOLVED = "SELECT unique_message_id FROM v_failed_messages WHERE status = 'unresolved'"
SENT = """
    SELECT unique_message_id FROM v_failed_messages WHERE status IN ('resolved', 'retry_issued')
"""
DEADLINE = 60.0
BEFORE, SINCE = 3, 2
"""Messages that have failed when the backup is made, and later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Both databases: the lost one, in which all was sent, and the restored one."""

    grounds: Grounds
    host: VersionedHost
    lost: str
    url: str

    def ids(self, url: str, query: str) -> set[str]:
        """Return the messages that a query finds in one of them."""
        with psycopg.connect(psycopg_url(url)) as conn:
            return {str(row[0]) for row in conn.execute(query)}

    def call(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of the version before."""
        command = [sys.executable, "-m", "retrier", *words]
        return subprocess.run(
            command,
            cwd=self.host.folder,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def restored(amqp_url: str, postgres_url: str, tmp_path: Path) -> Iterator[Restored]:
    """Make a backup, upgrade, retry all with the newer version, and restore the backup."""
    try:
        before = take_version_before(tmp_path / "before")
    except NoHistory as why:
        pytest.skip(f"the version before is not here: {why}")
    with ExitStack() as stack:
        grounds = stack.enter_context(
            opened_grounds("back", (amqp_url, postgres_url), 1, {}, empty=True)
        )
        settings = yaml.safe_load(grounds.host.config.read_text())
        lost = settings["database"]["url"]
        host = VersionedHost(tmp_path / "settings", settings)
        stack.callback(kill_all, host)
        connection = stack.enter_context(closing(pika_connection(amqp_url)))
        grounds.shop.channel = connection.channel()
        host.folder = before
        _fail(grounds, host.start_ready(), BEFORE)
        run(
            "pg_dump", "--format=custom", f"--file={tmp_path}/dump", f"--dbname={psycopg_url(lost)}"
        )
        host.services[-1].stop()

        host.folder = take_this_version(tmp_path / "now", newer=True)
        newer = host.start_ready()
        _fail(grounds, newer, SINCE)
        with newer.http as http:
            http.post("/api/errors/retry/all").raise_for_status()
        wait_until(lambda: depth(grounds) == BEFORE + SINCE, DEADLINE, "all are sent")
        newer.stop()

        url = stack.enter_context(temporary_postgres(postgres_url, "template0"))
        run(
            "pg_restore",
            "--exit-on-error",
            "--no-owner",
            f"--dbname={psycopg_url(url)}",
            f"{tmp_path}/dump",
        )
        host.folder = before
        host.configure("database", url=url)
        yield Restored(grounds=grounds, host=host, lost=lost, url=url)


def _fail(grounds: Grounds, service: Service, count: int) -> None:
    wanted = grounds.count(STORED) + count
    grounds.shop.fail(count)
    wait_until(lambda: grounds.count(STORED) == wanted, DEADLINE, "the failures are stored")
    assert service.process.poll() is None


def depth(grounds: Grounds) -> int:
    return grounds.shop.depth(grounds.shop.orders)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def test_the_version_before_works_on_the_backup_and_sends_nothing_by_itself(
    restored: Restored,
) -> None:
    """Begin with the API alone, as the page says."""
    config = str(restored.host.config)
    assert restored.call("db", "upgrade", "--config", config).returncode == 0
    assert restored.call("verify", "--config", config).returncode == 0

    restored.host.start_ready("api").stop()
    restored.host.start_ready().stop()

    assert len(restored.ids(restored.url, UNRESOLVED)) == BEFORE
    assert depth(restored.grounds) == BEFORE + SINCE


def test_what_was_sent_since_the_backup_is_found_and_not_sent_again(restored: Restored) -> None:
    """Compare both databases as the page says; then a retry of all finds nothing."""
    sent = restored.ids(restored.url, UNRESOLVED) & restored.ids(restored.lost, SENT)
    api = restored.host.start_ready("api")
    address = str(api.http.base_url)

    done = restored.call("resolve", "-", "--why", "sent", "--url", address, stdin="\n".join(sent))
    assert done.returncode == 0, done.stderr
    api.stop()
    everything = restored.host.start_ready()
    wait_until(lambda: not restored.ids(restored.url, UNRESOLVED), DEADLINE, "all are resolved")
    with everything.http as http:
        http.post("/api/errors/retry/all")
    assert everything.stop() == 0

    assert len(sent) == BEFORE
    assert depth(restored.grounds) == BEFORE + SINCE
    assert restored.call("verify", "--config", str(restored.host.config)).returncode == 0
