"""A service with failed messages, and tabs of a browser that look at it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
import pytest
from playwright.sync_api import Browser

from tests.journeys.conftest import Site, embedded_site, site  # noqa: F401 - a fixture
from tests.page.browser import EXECUTABLE, Screen, opened_browser
from tests.page.held import fail_in_stream, open_breaker
from tests.support.servers import give_up
from tests.support.service import Service
from tests.support.waiting import wait_until

DEADLINE = 30.0

QUORUM = pytest.mark.parametrize(
    "kind",
    [pytest.param("quorum", marks=[pytest.mark.rabbitmq, pytest.mark.postgres])],
    indirect=True,
)
"""On RabbitMQ and PostgreSQL, instead of the embedded default."""

ZONE, AHEAD = "Asia/Tokyo", timedelta(hours=9)
"""Where the reader is, and how far the clocks there are ahead of UTC."""

WIDTHS = {"wide": 1280, "narrow": 420}


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Name the broker: the embedded one, unless a test asks for another."""
    return str(getattr(request, "param", "embedded"))


@dataclass(slots=True, eq=False)
class Running:
    """A service that runs, and the shop that fails. `base` is the address of the page."""

    site: Site
    service: Service
    http: httpx.Client
    base: str = field(init=False)

    def __post_init__(self) -> None:
        self.base = str(self.http.base_url).rstrip("/")

    def fail(self, count: int = 1) -> None:
        """Let so many messages fail, and wait until they are stored, and counted for the page."""
        wanted = self.unresolved() + count
        self.site.shop.fail(count)
        wait_until(lambda: self.unresolved() == wanted, DEADLINE, "the failures are stored")
        shown = f'data-live="tile/unresolved">{wanted}<'
        wait_until(lambda: shown in self.http.get("/").text, DEADLINE, "the failures are counted")

    def unresolved(self, queue: str | None = None) -> int:
        """Return how many messages are unresolved, of a queue or all, as the API counts them."""
        asked = {"status": "unresolved", "per_page": 1} | ({"queue": queue} if queue else {})
        answer = self.http.get("/api/errors", params=asked)
        return int(answer.headers["Total-Count"])

    def sent(self, count: int) -> None:
        """Wait until so many retries are sent, and nobody has told how they ended."""
        pending = "/api/pendingretries"
        wait_until(
            lambda: len(self.http.get(pending).json()) == count, DEADLINE, "the retries are sent"
        )

    def group(self) -> str:
        """Return the id of the first group."""
        found = self.http.get("/api/recoverability/groups").json()
        return str(found[0]["id"])


@contextmanager
def run_on(site: Site) -> Iterator[Running]:  # noqa: F811 - the class's instance
    """Run a service on a site."""
    service = site.host.start_ready()
    with service.http as http:
        yield Running(site, service, http)


@pytest.fixture
def running(site: Site) -> Iterator[Running]:  # noqa: F811 - the fixture that is imported
    """Give a service that is ready."""
    with run_on(site) as running:
        yield running


FIELD = {"name": "endpoint", "from": "header:NServiceBus.ProcessingEndpoint"}
"""By which messages are found and grouped, for the pages that show fields."""


@pytest.fixture(scope="session")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Give a service with failed messages to tests that change nothing."""
    with ExitStack() as stack:
        made = stack.enter_context(embedded_site(tmp_path_factory.mktemp("looked_at")))
        made.host.configure("search", fields=[FIELD])
        running = stack.enter_context(run_on(made))
        running.fail(5)
        _act(running)
        add_the_rest(running)
        fail_in_stream(running.http, made.shop.put, made.database_url)
        open_breaker(running.http)
        yield running


def _act(running: Running) -> None:
    """Archive one message, comment on a group, and retry another one whose outcome nobody tells."""
    comment = f"/api/recoverability/groups/{running.group()}/comment"
    told = {"comment": "The warehouse repairs it; do not retry before Monday."}
    running.http.post(comment, params=told).raise_for_status()
    archived, retried, *_ = (each["id"] for each in running.http.get("/api/errors").json())
    running.http.patch("/api/errors/archive", json=[archived]).raise_for_status()
    running.http.post("/api/errors/retry", json=[retried]).raise_for_status()
    running.sent(1)


def add_the_rest(running: Running) -> None:
    """Let a message come that cannot be read, and set a redirect, for pages that show such."""
    running.site.shop.put_nonsense()
    wait_until(lambda: running.http.get("/api/imports").json() != [], DEADLINE, "it is an import")
    redirect = {"fromphysicaladdress": "shop.old", "tophysicaladdress": "shop.new"}
    running.http.post("/api/redirects", json=redirect).raise_for_status()
    view = {"page": "messages", "query": "queue=shop.orders&status=unresolved"}
    running.http.put("/api/views/night", json=view).raise_for_status()
    # By command: over HTTP none is made where nobody is asked for one.
    made = ("token", "create", "--name", "night-run", "--role", "operator", "--queues", "shop.*")
    command = [sys.executable, "-m", "retrier", *made, "--expires", "90d"]
    config = ["--config", str(running.site.host.config)]
    subprocess.run([*command, *config], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Give chromium; skip aloud where there is none.

    It ends with the tests of this folder: while it is there, an event loop runs in this thread, and
    other tests want to run their own.
    """
    if not EXECUTABLE:
        give_up(
            "no chromium: apt-get install chromium-headless-shell, or name one in RETRIER_TEST_CHROMIUM"
        )
    with opened_browser() as browser:
        yield browser


OpenScreen = Callable[..., Screen]


@contextmanager
def opening(browser: Browser, running: Running) -> Iterator[OpenScreen]:
    """Give a function that opens a tab; at the end none may have anything to complain of."""
    screens: list[Screen] = []
    with ExitStack() as stack:

        def open_one(theme: str = "light", width: str = "wide") -> Screen:
            context = browser.new_context(
                color_scheme=theme,  # type: ignore[arg-type]
                viewport={"width": WIDTHS[width], "height": 900},
                service_workers="block",
                timezone_id=ZONE,
            )
            stack.callback(context.close)
            screens.append(Screen(context, running.base))
            return screens[-1]

        yield open_one
        assert [each for screen in screens for each in screen.unexpected()] == []


@pytest.fixture
def open_screen(browser: Browser, running: Running) -> Iterator[OpenScreen]:
    """Give a function that opens a tab."""
    with opening(browser, running) as open_one:
        yield open_one


@pytest.fixture
def open_look(browser: Browser, looked_at: Running) -> Iterator[OpenScreen]:
    """Give the same for tests that change nothing."""
    with opening(browser, looked_at) as open_one:
        yield open_one


@pytest.fixture
def screen(open_screen: OpenScreen) -> Screen:
    """Give one tab."""
    return open_screen()
