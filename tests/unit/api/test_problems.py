"""Refusals and failures: problem documents that say what to do, and give nothing away."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from retrier.api.middleware import LARGEST_BODY, MOST_COMMAS
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.databases import temporary_postgres

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


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def begun(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    """Give an API whose database is there, and has no tables: it was made a moment ago."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path}/new.db"
        else:
            server: str = request.getfixturevalue("postgres_url")
            url = stack.enter_context(temporary_postgres(server))
        api = Api(Database(DatabaseOptions(url=url)))
        yield api
        api.http.close()
        api.db.dispose()


@pytest.mark.parametrize(
    "path", ["errors", "recoverability/groups", "eventlogitems", "operations", "events", "ledger"]
)
def test_before_the_tables_are_made_it_says_that_the_service_is_starting(
    begun: Api, path: str
) -> None:
    answer = begun.http.get(f"/api/{path}")

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert answer.json()["detail"] == (
        "The service is starting: the tables are not in its database yet."
    )


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


def test_a_body_of_too_many_parts_is_refused_before_they_are_made(idle: Api) -> None:
    pieces = (b"[" + b"1," * (MOST_COMMAS // 2), b"1," * (MOST_COMMAS // 2), b"1,1]")

    answer = idle.http.post("/api/errors/retry", content=iter(pieces), headers=JSON)

    assert answer.status_code == 413


def test_a_text_may_have_as_many_commas_as_it_likes_where_it_is_no_json(idle: Api) -> None:
    """It is read in one piece, whatever stands in it."""
    content = b"," * (MOST_COMMAS + 1)

    answer = idle.http.post("/api/errors/retry", content=content)

    assert answer.status_code == 422


def test_of_many_errors_the_first_are_told(idle: Api) -> None:
    body = {"selection": {"ids": [1] * 5000}}

    answer = idle.http.post("/api/operations/preview", json=body)

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 100


def test_an_object_of_a_thousand_members_that_nobody_reads_is_refused_as_one(idle: Api) -> None:
    body = {"selection": {f"a{number}": 1 for number in range(1001)}}

    answer = idle.http.post("/api/operations/preview", json=body)

    assert answer.status_code == 400
    assert answer.json()["errors"] == [
        {"field": "body", "reason": "An object has at most 1000 members."}
    ]


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


def test_a_refused_change_is_told_to_the_log_with_its_reason(idle: Api) -> None:
    answer = idle.http.post("/api/errors/retry/nobody/", json={})

    (told,) = idle.refused
    assert (told.method, told.path, told.status) == ("POST", "/api/errors/retry/nobody/", 404)
    assert f"{told.reason}." == answer.json()["detail"]


def test_a_change_refused_before_any_route_is_told_too(idle: Api) -> None:
    idle.http.post("/api/errors/retry/all", headers={"Host": "elsewhere.example"})

    assert [told.status for told in idle.refused] == [421]
