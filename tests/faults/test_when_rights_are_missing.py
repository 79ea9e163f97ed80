"""Users of broker and database whose rights are too few: `retrier check` says which."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from retrier.cli import app
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.private_servers import PrivatePostgres, PrivateRabbitMQ
from tests.support.servers import pika_connection, psycopg_url

pytestmark = pytest.mark.faults

ALL, NOTHING = ".*", "^$"
USER = "shop"
TABLES = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES"


class Check:
    """`retrier check` for a user whose rights are set by the test."""

    def __init__(self, broker: PrivateRabbitMQ, database: str, folder: Path) -> None:
        self.broker = broker
        self.database = self.owner = database
        self.role = "postgres"
        self.error = f"error.{uuid4().hex[:8]}"
        self.channel = pika_connection(broker.url).channel()
        self.channel.queue_declare(self.error, durable=True, arguments={"x-queue-type": "quorum"})
        self.channel.confirm_delivery()
        self.channel.basic_publish("", self.error, b"failed")
        self._config = folder / "retrier.yaml"

    def grant(self, configure: str, write: str, read: str) -> None:
        self.broker.control("set_permissions", USER, configure, write, read)

    def run(
        self, *, declare_missing: bool = False, missing: bool = False, password: str = "secret"
    ) -> tuple[int, str]:
        """Return the exit code, and all lines but that of the settings."""
        url = self.broker.url.replace("guest:guest", f"{USER}:{password}")
        queue = f"{self.error}.missing" if missing else self.error
        settings: dict[str, Any] = {
            "instance": "shop",
            "broker": {"url": url},
            "database": {"url": self.database},
            "ingestion": {"error_queues": [queue], "declare_missing": declare_missing},
        }
        self._config.write_text(yaml.safe_dump(settings))
        result = CliRunner().invoke(app, ["check", "--config", str(self._config), "--json"])
        found = json.loads(result.stdout)["results"]
        return result.exit_code, "\n".join(f"{each['name']}: {each['text']}" for each in found)

    def queues(self) -> list[str]:
        return self.broker.names_of_queues()


@pytest.fixture(scope="module", autouse=True)
def user(broker: PrivateRabbitMQ) -> None:
    """Let there be the user; the broker ends with the run."""
    broker.control("add_user", USER, "secret")


@pytest.fixture
def check(broker: PrivateRabbitMQ, database_url: str, tmp_path: Path) -> Iterator[Check]:
    CliRunner().invoke(
        app, ["db", "upgrade"], env={"RETRIER_DATABASE__URL": database_url}, catch_exceptions=False
    )
    check = Check(broker, database_url, tmp_path)
    yield check
    check.channel.connection.close()


def test_with_all_rights_all_is_well_and_nothing_has_changed(check: Check) -> None:
    check.grant(ALL, ALL, ALL)
    before = check.queues()

    code, told = check.run()

    assert code == 0, told
    assert "staging queue shop.staging: ok" in told
    assert check.queues() == before
    # Then the message was handed out to nobody
    method, properties, _ = check.channel.basic_get(check.error)
    assert method is not None
    assert not method.redelivered
    assert not (properties.headers or {}).get("x-delivery-count")


def test_a_user_without_any_right_is_told_all_of_them(check: Check) -> None:
    check.grant(NOTHING, NOTHING, NOTHING)

    code, told = check.run()

    assert code == 2
    assert f"the user shop may not read the queue {check.error}: grant it `read` on" in told
    assert "the user shop may not configure the queue shop.staging: grant it `configure`" in told
    assert "the user shop may not read the queue shop.staging: grant it `read` on" in told
    assert "may not publish to the default exchange: grant it `write` on amq.default" in told


@pytest.mark.parametrize(
    ("rights", "missing"),
    [
        ((NOTHING, ALL, ALL), "may not configure the queue shop.staging"),
        ((ALL, NOTHING, ALL), "may not publish to the default exchange"),
        ((ALL, ALL, "^shop[.].*"), "may not read the queue error."),
    ],
)
def test_one_missing_right_is_named(
    check: Check, rights: tuple[str, str, str], missing: str
) -> None:
    check.grant(*rights)

    code, told = check.run()

    assert code == 2
    assert missing in told
    assert told.count("grant it") == 1


@pytest.mark.parametrize("limit", ["max-connections", "max-channels"])
def test_a_limit_of_the_user_is_told_with_what_a_process_needs(check: Check, limit: str) -> None:
    check.grant(ALL, ALL, ALL)
    check.broker.control("set_user_limits", USER, json.dumps({limit: 0}))

    code, told = check.run()

    check.broker.control("clear_user_limits", USER, limit)
    assert code == 3
    assert "takes no more" in told
    assert "virtual host" not in told
    assert "a process opens up to 7 connections with a channel each" in told


def test_rights_that_are_limited_to_names_are_enough(check: Check) -> None:
    check.grant("^shop[.]staging$", "^amq[.]default$", "^(shop[.]staging|error[.].*)$")

    code, told = check.run()

    assert code == 0, told
    assert "not tried: whether it has a dead-letter exchange" in told
    assert "not tried: a queue like it: the rights do not hold for the name shop.check." in told


def test_a_missing_error_queue_that_may_not_be_declared_is_told(check: Check) -> None:
    check.grant("^shop[.].*", ALL, ALL)

    code, told = check.run(declare_missing=True, missing=True)

    assert code == 2
    assert f"the user shop may not configure the queue {check.error}.missing" in told


def test_a_wrong_password_is_no_broker_out_of_reach(check: Check) -> None:
    code, told = check.run(password="wrong")

    assert code == 2
    assert "refuses user and password" in told


class TestTheDatabase:
    @pytest.fixture
    def low(self, check: Check, cluster: PrivatePostgres) -> Check:
        """Give a check as a user who owns nothing."""
        role = f"low_{uuid4().hex[:8]}"
        with psycopg.connect(psycopg_url(cluster.url), autocommit=True) as conn:
            conn.execute(f"CREATE ROLE {role} LOGIN")
        check.grant(ALL, ALL, ALL)
        check.role = role
        check.database = check.database.replace("postgres@", f"{role}@")
        return check

    def test_tables_that_may_not_be_written_are_named(self, low: Check) -> None:
        code, told = low.run()

        assert code == 2
        assert "may not read and write the tables access_tokens, alembic_version" in told
        assert "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO low_" in told
        assert "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO low_" in told

    def test_what_is_granted_is_enough(self, low: Check) -> None:
        with psycopg.connect(psycopg_url(low.owner), autocommit=True) as conn:
            for what in (TABLES, "USAGE, SELECT ON ALL SEQUENCES"):
                conn.execute(f"GRANT {what} IN SCHEMA public TO {low.role}")

        code, told = low.run()

        assert code == 0, told

    def test_a_sequence_that_may_be_used_but_not_read_is_named(self, low: Check) -> None:
        with psycopg.connect(psycopg_url(low.owner), autocommit=True) as conn:
            for what in (TABLES, "USAGE ON ALL SEQUENCES"):
                conn.execute(f"GRANT {what} IN SCHEMA public TO {low.role}")

        code, told = low.run()

        assert code == 2
        assert "may not use the sequence" in told

    def test_a_retry_that_lacks_a_right_is_told_so(self, low: Check) -> None:
        db = Database(DatabaseOptions(url=low.database))
        api = Api(db)

        answer = api.http.post("/api/errors/retry/all")
        db.dispose()

        told = answer.json()
        assert answer.status_code == 503
        assert "refused: permission denied" in told["detail"]
        assert "cannot reach" not in told["detail"]
        assert "retrier check" in told["advice"]

    def test_tables_that_may_not_be_made_are_told_before_the_upgrade(
        self, low: Check, cluster: PrivatePostgres
    ) -> None:
        empty = cluster.create_database()
        with psycopg.connect(psycopg_url(empty), autocommit=True) as conn:
            conn.execute("REVOKE CREATE ON SCHEMA public FROM public")
        low.database = empty.replace("postgres@", f"{low.role}@")

        code, told = low.run()

        assert code == 2
        assert "may not create tables (permission denied for schema public)" in told

    def test_a_database_that_is_read_only_by_default_is_written_to(self, check: Check) -> None:
        check.grant(ALL, ALL, ALL)
        name = check.database.rpartition("/")[2]
        with psycopg.connect(psycopg_url(check.database), autocommit=True) as conn:
            conn.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')

        code, told = check.run()

        assert code == 0, told
        assert "warning: the role or the database sets default_transaction_read_only" in told
