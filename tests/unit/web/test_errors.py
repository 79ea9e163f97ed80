"""Error pages: in our design, with the reason and what to do; and what the page refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from retrier.app.parts import make_callers
from retrier.app.server import is_of_api
from retrier.settings import Api as ApiSettings
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.web.application import WORKING
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.http_client import URL, TestClient
from tests.support.web import Web

FORMS = sorted(
    route.path
    for router in WORKING
    for route in router.routes
    if isinstance(route, APIRoute) and "POST" in route.methods
)
"""The paths of everything on the page that changes something."""


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Web]:
    """Give a page whose database cannot be opened."""
    api = Api(Database(DatabaseOptions(url=f"sqlite:///{tmp_path}")))
    made = Web(api)
    yield made
    made.close()
    api.http.close()
    api.db.dispose()


def test_a_database_that_is_away_is_503_and_tried_again(away: Web) -> None:
    answer = away.http.get("/")

    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert "The database is out of reach" in answer.text
    assert '<meta http-equiv="refresh" content="5">' in answer.text


def test_an_error_page_gives_no_path_away(away: Web, tmp_path: Path) -> None:
    assert str(tmp_path) not in away.http.get("/").text


def test_an_error_page_has_the_headers_of_every_page(away: Web) -> None:
    headers = away.http.get("/").headers

    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", FORMS)
def test_a_form_of_another_site_is_refused(web: Web, path: str) -> None:
    answer = web.http.post(path, data={"name": "eve"}, headers={"Origin": "http://evil.example"})

    assert answer.status_code == 403


@pytest.mark.parametrize("path", FORMS)
def test_a_form_of_another_site_is_refused_without_its_origin(web: Web, path: str) -> None:
    answer = web.http.post(path, data={"name": "eve"}, headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 403


@pytest.fixture
def known(database: Database) -> Iterator[Web]:
    """Give a page beside an API that knows another origin and a proxy."""
    settings = ApiSettings(
        allowed_hosts=("pulse.example",),
        allowed_origins=("http://pulse.example:9090",),
        trusted_proxies=("127.0.0.1",),
    )
    api = Api(database, make_callers(settings))
    made = Web(api)
    yield made
    made.close()
    api.http.close()


@pytest.mark.parametrize("path", FORMS)
def test_a_form_of_an_origin_that_may_ask_the_api_is_refused(known: Web, path: str) -> None:
    headers = {"Origin": "http://pulse.example:9090"}

    answer = known.http.post(path, data={"name": "eve"}, headers=headers)

    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_behind_a_trusted_proxy_a_form_comes_from_the_host_that_was_asked_for(known: Web) -> None:
    told = {"Origin": "http://pulse.example", "X-Forwarded-Host": "pulse.example"}
    proxy = TestClient(known.http.app, base_url=URL, client=("127.0.0.1", 1), headers=told)

    assert proxy.post("/groups").status_code == 405
    assert proxy.post("/groups", headers={"Origin": "http://localhost"}).status_code == 403
    proxy.close()


def test_a_host_that_is_not_ours_is_refused(web: Web) -> None:
    assert web.http.get("/", headers={"Host": "evil.example"}).status_code == 421


LARGE = {"Content-Length": str(2**40), "Origin": "http://localhost"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "says"),
    [
        ("GET", "/messages?queue=a%00b", {}, 400, "has a NUL character"),
        ("GET", "/groups%00", {}, 400, "has a NUL character"),
        ("POST", "/retry", {"Origin": "http://evil.example"}, 403, "another origin"),
        ("POST", "/retry", LARGE, 413, "at most 16777216 bytes"),
        ("GET", "/", {"Host": "evil.example"}, 421, "the host evil.example"),
    ],
)
def test_what_is_refused_before_anything_is_read_is_a_page(
    web: Web, method: str, path: str, headers: dict[str, str], status: int, says: str
) -> None:
    answer = web.http.request(method, path, headers=headers)

    assert (answer.status_code, answer.headers["Content-Type"]) == (
        status,
        "text/html; charset=utf-8",
    )
    assert says in answer.text
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_a_page_under_a_foreign_host_tells_nothing_of_the_service(web: Web) -> None:
    text = web.http.get("/", headers={"Host": "evil.example"}).text

    assert "1.2.3" not in text
    assert "data-live" not in text


def test_a_wrong_method_is_refused_in_words(web: Web) -> None:
    answer = web.http.post("/groups", headers={"Origin": "http://localhost"})

    assert answer.status_code == 405
    assert "This cannot be done here" in answer.text


def test_a_name_is_kept_for_what_is_asked_later(web: Web) -> None:
    web.post("/name", {"name": "Zoë", "next": "/groups"})

    assert "<b>Zoë</b>" in web.get("/")


def test_an_old_browser_gets_the_page_uncompressed(web: Web) -> None:
    answer = web.http.get("/", headers={"Accept-Encoding": "identity"})

    assert "Content-Encoding" not in answer.headers
    assert "<!doctype html>" in answer.text


def test_files_are_kept_until_they_change(web: Web) -> None:
    answer = web.http.get("/static/page.css")

    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"].startswith("text/css")


@pytest.mark.parametrize("name", ["nothing.css", "..%2F__init__.py", "%2e%2e/parts.py"])
def test_no_other_file_is_given_out(web: Web, name: str) -> None:
    assert web.http.get(f"/static/{name}").status_code == 404


def test_what_was_done_is_never_told_in_the_words_of_an_address(web: Web) -> None:
    web.api.receive(failure())

    assert "transfer all money" not in web.get("/?done=transfer all money")
    assert "flash" not in web.get("/?done=retry:no-guid")


@pytest.mark.parametrize(
    "path", ["/api", "/api/errors", "/metrics", "/health/ready", "/openapi.json", "/docs"]
)
def test_some_paths_belong_to_the_api(path: str) -> None:
    assert is_of_api(path)


@pytest.mark.parametrize("path", ["/", "/groups", "/apis", "/healthy", "/static/page.css"])
def test_all_others_belong_to_the_page(path: str) -> None:
    assert not is_of_api(path)
