"""Several processes started at the same moment on an empty database: each is ready."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import sqlite_url, temporary_postgres
from tests.support.forked_service import ForkingHost
from tests.support.service import Service, hosted
from tests.support.waiting import wait_until

SEVERAL = 3

pytestmark = pytest.mark.journey


@pytest.mark.postgres
def test_on_postgres(postgres_url: str, tmp_path: Path) -> None:
    with temporary_postgres(postgres_url) as url:
        assert_all_get_ready(url, tmp_path)


def test_on_sqlite(tmp_path: Path) -> None:
    assert_all_get_ready(sqlite_url(tmp_path), tmp_path)


def assert_all_get_ready(database_url: str, folder: Path) -> None:
    settings: dict[str, Any] = {
        "broker": {"url": f"embedded:///{folder}/broker.db"},
        "database": {"url": database_url},
        "api": {"port": 0},
    }
    with hosted(folder, settings, ForkingHost) as host:
        services = [host.start() for _ in range(SEVERAL)]
        for service in services:
            service.wait_ready()

        assert {tuple(troubles(service)) for service in services} == {()}
        wait_until(lambda: leaders(services), 30, "one of them leads")
        assert leaders(services) == 1


def leaders(services: Sequence[Service]) -> int:
    return sum(service.names().count("processor.lease_acquired") for service in services)


def troubles(service: Service) -> list[str]:
    """Return what was told and is not as it should be."""
    return [str(line) for line in service.logged if line.get("level") != "info"]
