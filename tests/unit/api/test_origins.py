"""Web pages of other origins, and proxies that rewrite the Host: ServicePulse beside the service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrier.api.middleware import Callers
from retrier.app.parts import make_callers
from retrier.settings import Api as ApiSettings
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.http_client import URL, TestClient

PULSE = "http://pulse.example:9090"
PROXY = "10.0.0.7"
HOST = {"Host": "127.0.0.1:33333"}
SETTINGS = ApiSettings(
    allowed_hosts=("pulse.example",), allowed_origins=(PULSE,), trusted_proxies=("10.0.0.0/29",)
)
ALL = "/api/errors/retry/all"


def idle_api(tmp_path: Path, callers: Callers) -> Api:
    return Api(Database(DatabaseOptions(url=f"sqlite:///{tmp_path}/unused.db")), callers)


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Api]:
    """Give an API that needs no database for what it is asked."""
    api = idle_api(tmp_path, make_callers(SETTINGS))
    yield api
    api.http.close()
    api.db.dispose()


@pytest.fixture
def by_proxy(idle: Api) -> Iterator[TestClient]:
    """Give a client whose connections come from the trusted proxy."""
    client = TestClient(
        idle.app, base_url=URL, raise_server_exceptions=False, client=(PROXY, 4711), headers=HOST
    )
    yield client
    client.close()


def is_refused(api: Api, **headers: str) -> bool:
    """Say whether a change is refused; one that is not finds that the method is none of `/api`."""
    status = api.http.delete("/api", headers=headers).status_code
    assert status in {403, 405}
    return status == 403


def test_a_page_of_a_listed_origin_may_change_something(idle: Api) -> None:
    assert not is_refused(idle, Origin=PULSE)


@pytest.mark.parametrize(
    "origin",
    [
        "https://pulse.example:9090",
        "http://pulse.example",
        "http://pulse.example:9091",
        "http://x.pulse.example:9090",
        "http://evil.example",
        "http://pulse.example:9090.evil.example",
        "http://pulse.example:9090/x",
        "null",
        "*",
    ],
)
def test_a_page_of_any_other_origin_may_not(idle: Api, origin: str) -> None:
    answer = idle.http.post(ALL, headers={"Origin": origin})

    assert answer.status_code == 403
    assert "api.allowed_origins" in answer.json()["advice"]
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert idle.wakes == 0


def test_a_listed_origin_helps_no_foreign_host(idle: Api) -> None:
    headers = {"Host": "evil.example", "Origin": PULSE}

    assert idle.http.post(ALL, headers=headers).status_code == 421


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/health"), ("GET", "/nowhere"), ("DELETE", "/api"), ("GET", "/api/errors?per=1")],
)
def test_each_answer_can_be_read_by_a_listed_page(idle: Api, method: str, path: str) -> None:
    answer = idle.http.request(method, path, headers={"Origin": PULSE})

    assert answer.headers["Access-Control-Allow-Origin"] == PULSE
    assert "Origin" in answer.headers.get("Vary", "")
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {
        "Total-Count",
        "Link",
        "ETag",
        "Last-Modified",
        "X-Particular-Version",
        "X-Particular-Reason",
        "Content-Disposition",
    } <= set(exposed)


def test_an_error_that_nobody_expected_can_be_read_too(idle: Api) -> None:
    def fail() -> None:
        raise RuntimeError

    idle.app.add_api_route("/fails", fail)

    answer = idle.http.get("/fails", headers={"Origin": PULSE})

    idle.app.router.routes.pop()
    assert answer.status_code == 500
    assert answer.headers["Access-Control-Allow-Origin"] == PULSE


def test_the_answer_to_a_foreign_host_can_be_read_by_a_listed_page(idle: Api) -> None:
    answer = idle.http.get("/health", headers={"Origin": PULSE, "Host": "evil.example"})

    assert answer.status_code == 421
    assert answer.headers["Access-Control-Allow-Origin"] == PULSE


def test_who_is_no_page_is_told_that_answers_depend_on_the_origin(idle: Api) -> None:
    answer = idle.http.get("/api/errors?per=1")

    assert answer.headers["Vary"] == "Accept, Origin"
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_without_listed_origins_nothing_is_said_of_them(tmp_path: Path) -> None:
    api = idle_api(tmp_path, Callers())

    answer = api.http.get("/api/errors?per=1", headers={"Origin": PULSE})

    assert answer.headers["Vary"] == "Accept"
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_browser_that_asks_first_is_told_what_it_may_send(idle: Api) -> None:
    asked = {
        "Origin": PULSE,
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "content-type",
    }

    answer = idle.http.options("/api/errors/archive", headers=asked)

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == PULSE
    assert "PATCH" in answer.headers["Access-Control-Allow-Methods"]
    assert "Content-Type" in answer.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/errors/archive", "GET, POST, PATCH, OPTIONS"),
        ("/api/redirects/1", "PUT, DELETE, OPTIONS"),
        ("/health", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_browser_that_asks_first_is_told_the_methods_of_this_address(
    idle: Api, path: str, methods: str
) -> None:
    asked = {"Origin": PULSE, "Access-Control-Request-Method": "PATCH"}

    told = idle.http.options(path, headers=asked).headers

    assert (told["Allow"], told["Access-Control-Allow-Methods"]) == (methods, methods)


def test_a_browser_may_go_on_to_an_address_that_is_none_and_read_the_404(idle: Api) -> None:
    asked = {"Origin": PULSE, "Access-Control-Request-Method": "GET"}

    answer = idle.http.options("/nowhere", headers=asked)

    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (204, PULSE)
    assert "Access-Control-Allow-Methods" not in answer.headers
    assert "Allow" not in answer.headers


@pytest.mark.parametrize(
    ("listed", "named"),
    [
        (PULSE, "HTTP://Pulse.Example:9090"),
        ("HTTP://PULSE.example:9090", PULSE),
        ("https://pulse.example:443", "https://pulse.example"),
        ("https://pulse.example", "https://pulse.example:443"),
    ],
)
def test_one_origin_in_two_writings_is_one(tmp_path: Path, listed: str, named: str) -> None:
    api = idle_api(tmp_path, make_callers(ApiSettings(allowed_origins=(listed,))))

    assert not is_refused(api, Origin=named)


@pytest.mark.parametrize("origin", ["http://evil.example", "null"])
def test_a_foreign_page_that_asks_first_is_told_nothing(idle: Api, origin: str) -> None:
    asked = {"Origin": origin, "Access-Control-Request-Method": "PATCH"}

    answer = idle.http.options("/api/errors/archive", headers=asked)

    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/errors", "GET, HEAD, OPTIONS"),
        ("/api/pendingretries/resolve", "PATCH, OPTIONS"),
        ("/api/redirects/1", "PUT, DELETE, OPTIONS"),
        ("/health", "GET, HEAD, OPTIONS"),
    ],
)
def test_each_address_tells_its_methods(idle: Api, path: str, methods: str) -> None:
    answer = idle.http.options(path)

    assert (answer.status_code, answer.headers["Allow"]) == (204, methods)


def test_an_address_that_is_none_has_no_methods(idle: Api) -> None:
    assert idle.http.options("/nowhere").status_code == 404


def test_a_browser_that_calls_its_page_ours_is_believed(idle: Api) -> None:
    """By the Host alone a page behind a proxy that rewrites it would be foreign."""
    assert not is_refused(idle, Origin="https://pulse", **{"Sec-Fetch-Site": "same-origin"})


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none", "same-origin, none", ""])
def test_a_browser_that_calls_it_otherwise_is_not(idle: Api, site: str) -> None:
    assert is_refused(idle, Origin="https://pulse", **{"Sec-Fetch-Site": site})


def test_behind_a_trusted_proxy_the_host_is_the_one_it_was_asked_for(by_proxy: TestClient) -> None:
    told = {"Origin": PULSE.upper(), "X-Forwarded-Host": "Pulse.example:9090"}

    assert by_proxy.delete("/api", headers=told).status_code == 405


def test_the_word_of_a_trusted_proxy_makes_no_page_of_another_origin_ours(
    by_proxy: TestClient,
) -> None:
    told = {"Origin": "http://evil.example", "X-Forwarded-Host": "pulse.example:9090"}

    assert by_proxy.delete("/api", headers=told).status_code == 403


@pytest.mark.parametrize("told", ["evil.example", "pulse.example, evil.example", "evil.example,x"])
def test_a_trusted_proxy_that_was_asked_for_a_foreign_host_is_answered_nothing(
    by_proxy: TestClient, told: str
) -> None:
    answer = by_proxy.get("/health", headers={"X-Forwarded-Host": told})

    assert answer.status_code == 421


def test_a_trusted_proxy_that_is_asked_by_a_foreign_name_itself_is_answered_nothing(
    by_proxy: TestClient,
) -> None:
    """A page whose name was led to this address can write any header into its own requests."""
    told = {"Host": "evil.example", "X-Forwarded-Host": "pulse.example:9090"}

    assert by_proxy.get("/health", headers=told).status_code == 421


def test_of_several_proxies_in_a_row_the_first_one_names_the_host(by_proxy: TestClient) -> None:
    told = {"Origin": "http://pulse.example", "X-Forwarded-Host": "pulse.example, localhost"}

    assert by_proxy.delete("/api", headers=told).status_code == 405


def test_nobody_else_tells_of_a_host(idle: Api) -> None:
    told = {"Origin": "http://pulse.example:9091", "X-Forwarded-Host": "pulse.example:9091"}

    assert is_refused(idle, **HOST, **told)
