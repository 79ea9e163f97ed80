"""Every route of the API is documented, and nothing is documented that is no route."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.project import ROOT

PAGE = ROOT / "docs" / "http-api.md"

ROW = re.compile(r"^\| ([A-Z, ]+) \| `(/[^`]*)` \|", re.MULTILINE)


@pytest.fixture
def routes(tmp_path: Path) -> Iterator[set[str]]:
    """Give the routes of the API, as METHOD path."""
    api = Api(Database(DatabaseOptions(url=f"sqlite:///{tmp_path}/unused.db")))
    paths = api.app.openapi()["paths"]
    yield {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    api.http.close()
    api.db.dispose()


def documented() -> set[str]:
    rows = ROW.findall(PAGE.read_text())
    return {f"{method.strip()} {path}" for methods, path in rows for method in methods.split(",")}


def test_every_route_is_documented(routes: set[str]) -> None:
    assert routes - documented() == set()


def test_every_documented_route_exists(routes: set[str]) -> None:
    assert documented() - routes == set()
