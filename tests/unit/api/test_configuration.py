"""GET /api/configuration: when archived messages are deleted, as ServicePulse reads it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from retrier.api.configuration import configuration
from retrier.api.parts import Configured
from retrier.domain.times import show_time_span
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api

HOUR = timedelta(hours=1)


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Api]:
    """Give an API that needs no database for what it is asked."""
    api = Api(Database(DatabaseOptions(url=f"sqlite:///{tmp_path}/unused.db")))
    yield api
    api.http.close()
    api.db.dispose()


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        (timedelta(days=10), "10.00:00:00"),
        (timedelta(hours=36), "1.12:00:00"),
        (timedelta(days=3 * 365 + 1), "1096.00:00:00"),
        (timedelta(minutes=90), "01:30:00"),
        (timedelta(milliseconds=500), "00:00:00.5000000"),
        (None, "36500.00:00:00"),
    ],
)
def test_how_long_archived_messages_are_kept_is_a_time_span(
    kept: timedelta | None, shown: str
) -> None:
    told = configuration(replace(Configured(), archived_kept=kept))

    assert told["data_retention"] == {"error_retention_period": shown}


def test_a_span_may_be_negative() -> None:
    assert show_time_span(-25 * HOUR) == "-1.01:00:00"


def test_the_queues_are_those_of_the_settings() -> None:
    told = configuration(Configured(error_queues=("shop.error", "error"), log_queue="error.log"))

    assert told["transport"] == {
        "transport_type": "RabbitMQ",
        "error_queue": "shop.error",
        "error_log_queue": "error.log",
        "forward_error_messages": True,
    }


def test_the_routes_that_may_be_called_are_all_of_them(idle: Api) -> None:
    routes = idle.get("my/routes")["routes"]

    assert {"method": "POST", "url_template": "/api/errors/retry"} in routes
    assert {"method": "GET", "url_template": "/api/errors"} in routes


def test_the_addresses_of_the_root_are_whole(idle: Api) -> None:
    root = idle.get("")

    assert root["my_routes_url"] == "http://localhost/api/my/routes"
    assert root["archived_groups_url"].startswith("http://localhost/api/errors/groups/")
    assert set(root) >= {
        "known_endpoints_url",
        "endpoints_url",
        "endpoints_messages_url",
        "endpoints_message_search_url",
        "audit_count_url",
        "configuration",
        "remote_configuration",
        "message_search_url",
        "license_details",
        "sagas_url",
        "get_archive_group",
    }


def test_a_probe_may_ask_for_the_head_alone(idle: Api) -> None:
    for path in ("/health", "/health/ready", "/metrics"):
        answer = idle.http.head(path)

        assert (answer.status_code, answer.content) == (200, b"")
