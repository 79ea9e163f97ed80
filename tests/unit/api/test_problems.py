"""Refusals and failures: problem documents that say what to do, and give nothing away."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrier.api.middleware import LARGEST_BODY
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api

SILENT = "postgresql+psycopg://postgres:secret@127.0.0.1:1/none"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(params=["sqlite", "postgres"])
def unreachable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    """Give an API whose database cannot be opened."""
    urls = {"sqlite": f"sqlite:///{tmp_path}", "postgres": SILENT}
    api = Api(Database(DatabaseOptions(url=urls[request.param])))
    yield api
    api.http.close()
    api.db.dispose()


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Api]:
    """Give an API that needs no database for what it is asked."""
    api = Api(Database(DatabaseOptions(url=f"sqlite:///{tmp_path}/unused.db")))
    yield api
    api.http.close()
    api.db.dispose()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/no/such/address", 404),
        ("GET", "/nowhere", 404),
        ("DELETE", "/api/errors", 405),
        ("GET", "/api/errors?modified=x", 400),
        ("GET", "/api/errors/a%00b", 400),
        ("GET", "/api/errors?queue=a%00b", 400),
    ],
)
def test_a_refusal_is_a_problem_document(idle: Api, method: str, path: str, status: int) -> None:
    answer = idle.http.request(method, path)

    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert all(document[name] for name in ("type", "title", "detail", "advice"))


def test_a_wrong_method_names_the_right_ones(idle: Api) -> None:
    assert "GET" in idle.http.delete("/api/errors").headers["Allow"]


def test_a_body_that_is_too_large_is_refused_by_its_length(idle: Api) -> None:
    answer = idle.http.post("/api/errors/retry", content=b" " * (LARGEST_BODY + 1), headers=JSON)

    assert answer.status_code == 413


def test_a_body_that_is_too_large_is_refused_as_it_comes(idle: Api) -> None:
    pieces = (b" " * 1024 * 1024 for _ in range(17))

    answer = idle.http.post("/api/errors/retry", content=pieces, headers=JSON)

    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["errors", "errors/7", "recoverability/groups", "operations"])
def test_a_read_without_the_database_is_unavailable_for_a_reason(
    unreachable: Api, path: str
) -> None:
    answer = unreachable.http.get(f"/api/{path}")

    assert answer.status_code == 503
    assert "database" in answer.json()["detail"]
    assert answer.headers["Retry-After"] == "5"


def test_a_retry_without_the_database_is_unavailable(unreachable: Api) -> None:
    answer = unreachable.http.post("/api/errors/retry/all")

    assert answer.status_code == 503
    assert unreachable.wakes == 0


def test_an_unavailable_database_gives_no_path_and_no_password(
    unreachable: Api, tmp_path: Path
) -> None:
    text = unreachable.http.get("/api/errors").text

    assert str(tmp_path) not in text
    assert "secret" not in text
    assert "Traceback" not in text


def test_an_unexpected_error_gives_nothing_away(idle: Api) -> None:
    def fail() -> dict[str, tuple[bool, str]]:
        raise RuntimeError("/etc/secret/path")

    idle.app.state.parts = replace(idle.app.state.parts, health=fail)

    answer = idle.http.get("/health/ready")

    assert answer.status_code == 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "secret" not in answer.text
