"""Messages that nobody can read: each has a way out, by the command line alone."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from retrier.cli import app
from tests.journeys.conftest import Site
from tests.support.service import Service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.journey

KEPT = "SELECT count(*) FROM failed_imports"
LARGE = bytes(range(256)) * (2 * 4096)
DEADLINE = 60


class Person:
    """Somebody who has the command line and nothing else."""

    def __init__(self, service: Service) -> None:
        with service.http as http:
            self._environ = {"RETRIER_URL": str(http.base_url)}

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, env=self._environ)

    def read(self, *arguments: str) -> Any:
        """Run a command that has to end well; return its JSON document."""
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def find(self, size: int) -> str:
        """Return the id of the import whose body has so many bytes."""
        items = self.read("imports", "list")["items"]
        (found,) = [each["id"] for each in items if each["body_size"] == size]
        return str(found)


def nested(levels: int) -> dict[str, Any]:
    """Return a header table that is deeper than anybody reads, and that brokers take."""
    table: dict[str, Any] = {}
    for _ in range(levels):
        table = {"down": table}
    return table


def keep_them_all(site: Site) -> Service:
    """Put one without headers, one nobody can read, and one of 2 MiB on the error queue."""
    site.shop.put({}, b"plain")
    site.shop.put({"Shop.Tenant": "north", **nested(100)}, b"poison")
    site.shop.put({"Shop.Tenant": "south"}, LARGE)
    service = site.host.start_ready()
    wait_until(lambda: site.count(KEPT) == 3, DEADLINE, "all are kept")
    return service


def change_settings(site: Site, service: Service) -> Service:
    """Name the queue on which such messages failed; return the service that knows."""
    assert service.stop() == 0
    entry = {"queue": site.shop.error, "destination": site.shop.orders}
    site.host.configure("ingestion", error_queues=[entry])
    return site.host.start_ready()


def test_every_message_has_a_way_out(site: Site) -> None:
    # Given messages that cannot be read; then lists without them say that they are there
    service = keep_them_all(site)
    person = Person(service)
    told = "3 messages could not be read: `retrier imports list`"
    assert person.run("groups").stderr.splitlines()[-1] == told
    assert "nested more than 64 deep" in person.run("imports", "show", person.find(6)).stdout

    # When one is sent to a queue and one is deleted, then these are done with
    sent = person.run("imports", "send", person.find(len(LARGE)), "--to", site.shop.orders)
    deleted = person.run("imports", "delete", person.find(6), "--yes")
    assert (sent.exit_code, deleted.exit_code) == (0, 0), sent.output
    assert [each.body for each in site.shop.take(site.shop.orders, 1)] == [LARGE]

    # When the last one is read again, then it stays, until the settings are changed
    assert person.run("imports", "retry", "--all").exit_code == 1
    person = Person(change_settings(site, service))
    read = person.run("imports", "retry", "--all")
    assert read.stdout == "1 of 1 failed import understood: 1 failed message\n"

    # Then it is a failed message, and is retried like any other
    (message,) = person.read("errors", "list")["items"]
    assert message["failure_reason"] == "no failure headers"
    assert person.run("retry", message["id"], "--watch").exit_code == 0
    assert [each.body for each in site.shop.take(site.shop.orders, 1)] == [b"plain"]
    assert site.count(KEPT) == 0
