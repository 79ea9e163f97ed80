"""The API is asked as the machine itself or as a host that is listed; else nothing is answered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrier.app.parts import make_callers, make_hosts
from retrier.settings import Api as ApiSettings
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.bare_requests import ask_bare

EVIL = "evil.example"
"""The name of a page whose owner lets it lead to 127.0.0.1."""


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Api]:
    """Give an API that needs no database for what it is asked."""
    settings = ApiSettings(allowed_hosts=("retrier.example", "proxy:8443"))
    db = Database(DatabaseOptions(url=f"sqlite:///{tmp_path}/unused.db"))
    api = Api(db, make_callers(settings))
    yield api
    api.http.close()
    api.db.dispose()


def routes(api: Api) -> list[tuple[str, str]]:
    paths = api.app.openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def test_a_page_of_another_name_is_answered_nothing_on_every_route(idle: Api) -> None:
    asked = [*routes(idle), ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/nowhere")]
    asked += [("OPTIONS", "/api/errors"), ("DELETE", "/api/errors"), ("TRACE", "/health")]

    answers = {each: idle.http.request(*each, headers={"Host": EVIL}) for each in asked}

    assert {each: a.status_code for each, a in answers.items() if a.status_code != 421} == {}


def test_a_page_that_names_itself_as_its_origin_asks_for_no_retry(idle: Api) -> None:
    headers = {"Host": f"{EVIL}:33333", "Origin": f"http://{EVIL}:33333"}

    answer = idle.http.post("/api/errors/retry/all", headers=headers)

    assert answer.status_code == 421
    assert idle.wakes == 0


def test_a_refusal_says_what_to_do(idle: Api) -> None:
    answer = idle.http.get("/api/errors", headers={"Host": EVIL})

    assert answer.headers["Content-Type"] == "application/problem+json"
    assert EVIL in answer.json()["detail"]
    assert "api.allowed_hosts" in answer.json()["advice"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost.:8080", "127.0.0.1:33333", "[::1]:33333", "retrier.example:443"],
)
def test_a_browser_or_a_proxy_that_names_one_of_our_hosts_is_answered(idle: Api, host: str) -> None:
    assert idle.http.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://proxy:8443", "https://proxy:8443", "https://Proxy:8443"]
)
def test_a_page_behind_a_proxy_that_keeps_its_host_may_change_something(
    idle: Api, origin: str
) -> None:
    headers = {"Host": "proxy:8443", "Origin": origin}

    assert idle.http.delete("/api", headers=headers).status_code == 405


@pytest.mark.parametrize("header", ["X-Forwarded-Host", "X-Original-Host", "Forwarded"])
def test_what_a_request_says_of_the_host_elsewhere_does_not_count(idle: Api, header: str) -> None:
    forged = {"Host": EVIL, header: "host=localhost" if header == "Forwarded" else "localhost"}

    assert idle.http.get("/health", headers=forged).status_code == 421
    assert idle.http.get("/health", headers={header: EVIL}).status_code == 200


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [b""],
        [b"localhost", b"evil.example"],
        [b"localhost", b"localhost"],
        [b"localhost@evil.example"],
        [b"["],
        [b"\xff"],
    ],
    ids=repr,
)
def test_a_request_that_names_no_host_or_several_is_refused(idle: Api, hosts: list[bytes]) -> None:
    sent = [(b"host", host) for host in hosts]

    assert ask_bare(idle.app, "GET", "/api/errors", sent).status == 421


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://]", "", "//", "localhost"])
def test_an_origin_that_is_none_is_another(idle: Api, origin: str) -> None:
    answer = idle.http.post("/api/errors/retry/all", headers={"Origin": origin})

    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.8.9.1", "localhost"])
def test_the_address_it_listens_on_is_always_one_of_its_hosts(host: str) -> None:
    asked = make_hosts(ApiSettings(host=host)).listed

    assert {each.name for each in asked} == {host}
