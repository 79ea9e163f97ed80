"""A service on a fresh database and fresh queues, and what one sees of it from outside."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.operation_requests import create_operation
from retrier.store.verification import verify_store
from tests.benchmarks.place import Place
from tests.benchmarks.queues import Queues, opened_queues
from tests.support.databases import open_database, open_upgraded, temporary_postgres
from tests.support.servers import psycopg_url
from tests.support.service import Host, Service
from tests.support.waiting import wait_until

SLOWEST = 100
"""Messages per second: what is slower than this hangs."""
LEAST_PATIENCE = 120.0


def patience(count: int) -> float:
    """Return the seconds in which so many messages are through in any case."""
    return LEAST_PATIENCE + count / SLOWEST


def ask_for_all(db: Database) -> None:
    """Ask for a retry of everything, with no service there that would begin at once."""
    request = RetryRequest(
        retry_type=RetryType.ALL,
        selection=Selection(),
        originator="benchmark",
        requested_by="benchmark",
    )
    create_operation(db, request)


@dataclass(slots=True)
class Site:
    """Where one scenario takes place; `orders` is where its messages failed."""

    host: Host
    queues: Queues
    database_url: str
    error: str
    orders: str
    conn: psycopg.Connection

    def start(self, *roles: str, crash_at: str | None = None) -> Service:
        """Start a service."""
        return self.host.start(*roles, crash_at=crash_at)

    def count(self, sql: str) -> int:
        """Return the number a query answers with."""
        return int(self.conn.execute(sql).fetchall()[0][0])

    def taken_off(self) -> int:
        """Return how many messages ingestion has committed."""
        return self.count("SELECT coalesce(sum(count), 0) FROM ledger WHERE entry = 'taken_off'")

    def wait_ingested(self, service: Service, count: int) -> None:
        """Wait until so many messages are committed."""
        wait_alive(service, lambda: self.taken_off() >= count, count, "ingested")

    def wait_completed(self, http: httpx.Client, operation_id: str, count: int) -> dict[str, Any]:
        """Wait until an operation is complete; return it."""

        def completed() -> bool:
            return bool(ask(http, operation_id)["state"] == "completed")

        wait_until(completed, patience(count), "the operation completes")
        return ask(http, operation_id)

    def verify(self) -> None:
        """Fail unless all states, claims, counts and batches agree with each other."""
        db = open_database(self.database_url)
        broken = [each for each in verify_store(db).rules if each.broken]
        db.dispose()
        if broken:
            raise RuntimeError(f"it does not add up: {broken}")


@contextmanager
def opened_site(place: Place, kind: str, **sections: object) -> Iterator[Site]:
    """Give a site with an upgraded database; nothing runs yet. All of it is removed afterwards.

    `sections` are further sections of the settings.
    """
    with (
        temporary_postgres(place.postgres_url) as url,
        opened_queues(place.amqp_url, kind) as queues,
        psycopg.connect(psycopg_url(url), autocommit=True) as conn,
        TemporaryDirectory(prefix="retrier-bench-") as folder,
    ):
        open_upgraded(url).dispose()
        error, instance = queues.declare("error"), f"bench-{uuid4().hex[:12]}"
        queues.remember(f"{instance}.staging")
        settings = {
            "instance": instance,
            "broker": {"url": place.amqp_url, "staging_queue_type": kind},
            "database": {"url": url},
            "ingestion": {"error_queues": [error]},
            "api": {"port": 0},
            **sections,
        }
        host = Host(Path(folder), settings)
        try:
            yield Site(host, queues, url, error, queues.declare("orders"), conn)
        finally:
            for service in host.services:
                service.kill()
                tell_warnings(service)


def tell_warnings(service: Service) -> None:
    """Show what the service warned of: a figure with trouble in it is none."""
    for line in service.logged:
        if line.get("level") not in ("info", "debug"):
            sys.stderr.write(f"the service warned: {line}\n")


def wait_alive(service: Service, predicate: Callable[[], object], count: int, what: str) -> None:
    """Wait for something that needs a service; fail at once when that has ended."""

    def done() -> bool:
        if service.process.poll() is not None:
            raise RuntimeError(f"the service has ended: {service.logged[-3:]}")
        return bool(predicate())

    wait_until(done, patience(count), f"{count} messages {what}")


def ask(http: httpx.Client, operation_id: str) -> dict[str, Any]:
    """Return an operation as the API shows it."""
    answer = http.get(f"/api/operations/{operation_id}")
    answer.raise_for_status()
    return dict(answer.json())


def retry(http: httpx.Client, path: str) -> str:
    """Ask for a retry; return the operation's id."""
    answer = http.post(path)
    answer.raise_for_status()
    return str(answer.json()["operation_id"])
