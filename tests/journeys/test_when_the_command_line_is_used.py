"""The command line beside a real service: look, retry, watch, verify; then the service is gone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.journeys.conftest import Site
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.journey,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
    # What kind of queue it is makes no difference to the command line.
    pytest.mark.parametrize("kind", ["quorum"]),
]

FAILED = 300


class Terminal:
    """Runs `retrier` as a person would, and keeps nothing between two commands."""

    def __init__(self, url: str) -> None:
        self._environ = {**os.environ, "RETRIER_URL": url, "USER": "ada"}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "retrier", *arguments]
        return subprocess.run(
            command, env=self._environ, input=stdin, capture_output=True, text=True, check=False
        )

    def read(self, *arguments: str) -> Any:
        """Run a command that has to end well; return its JSON document."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@contextmanager
def started(site: Site) -> Iterator[tuple[Service, Terminal]]:
    service = site.host.start_ready()
    with service.http as http:
        yield service, Terminal(str(http.base_url))


def wait_for(service: Service, count: int, **filters: str) -> None:
    """Wait until so many messages are listed; without a process for each look."""
    with service.http as http:
        wait_until(
            lambda: http.get("/api/errors", params=filters).headers["Total-Count"] == str(count),
            30,
        )


def look_around(terminal: Terminal) -> str:
    """Look at a list, one message and its body; return the short id of its group."""
    listed = terminal.run("errors", "list", "--status", "unresolved", "--limit", "5")
    assert len(listed.stdout.splitlines()) == 6
    short = listed.stdout.splitlines()[1].split()[0]
    assert "Shop.OutOfStock" in terminal.run("errors", "show", short).stdout
    assert terminal.run("errors", "body", short).stdout.startswith('{"order": ')
    return terminal.run("groups").stdout.splitlines()[1].split()[0]


def test_a_group_is_looked_at_and_retried(site: Site) -> None:
    # Given failed messages, and a service that has taken them in
    site.shop.fail(FAILED)
    with started(site) as (service, terminal):
        wait_for(service, FAILED)
        group = look_around(terminal)

        # When a dry run is asked for, then nothing happens
        dry = terminal.run("retry", "--group", group, "--dry-run")
        assert f"would retry {FAILED} messages" in dry.stdout
        assert terminal.read("operations", "list")["total"] == 0

        # When the group is retried and watched
        watched = terminal.run("retry", "--group", group, "--watch")

        # Then all of it is forwarded, and everything adds up
        assert watched.stdout == (
            f"{FAILED} of {FAILED} messages sent back; {FAILED} without outcome yet\n"
        )
        assert watched.returncode == 0
        assert len(site.shop.take(site.shop.orders, FAILED)) == FAILED
        (operation,) = terminal.read("operations", "list")["items"]
        assert (operation["state"], operation["requested_by"]) == ("completed", "ada (127.0.0.1)")
        verified = terminal.run("verify", "--config", str(site.host.config))
        assert "everything adds up" in verified.stdout
        assert verified.returncode == 0

        # When the service is stopped, then what asks it says where it looked
        service.stop()
        asked = terminal.run("groups")
        assert (asked.returncode, asked.stdout) == (3, "")
        assert "127.0.0.1" in asked.stderr


def test_what_comes_back_is_retried_by_its_id(site: Site) -> None:
    # Given two retried messages, of which one is confirmed and the other fails again
    site.shop.fail(2)
    with started(site) as (service, terminal):
        wait_for(service, 2)
        assert terminal.run("retry", "--all", "--watch").returncode == 0
        confirmed, failed = site.shop.take(site.shop.orders, 2)
        site.shop.confirm(confirmed)
        site.shop.fail_again(failed)
        wait_for(service, 1, status="unresolved")
        wait_for(service, 1, status="resolved")

        # When what is unresolved is handed from list to retry
        ids = terminal.run("errors", "list", "--status", "unresolved", "--ids").stdout
        retried = terminal.run("retry", "-", "--watch", stdin=ids)

        # Then it goes once more, as the second attempt
        assert retried.returncode == 0
        assert len(site.shop.take(site.shop.orders, 1)) == 1
        found = terminal.read("errors", "show", ids.strip())
        assert found["number_of_processing_attempts"] == 2
