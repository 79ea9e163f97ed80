"""What a completion asks of a service: it waits for nothing, and tells nobody else the token."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from retrier.cli.api_client import fetch
from retrier.errors import ServiceUnavailable

OF_RETRIER = {"X-Particular-Version": "1.2.3"}
TOKEN = {"Authorization": "Bearer abc"}


class Answers(BaseHTTPRequestHandler):
    """Answers by the path, and remembers who asked."""

    asked: list[tuple[str, str]]
    done: threading.Event

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        if self.path == "/slow":
            self.done.wait(30)
        self.send_response({"/moved": 302, "/broken": 500}.get(self.path, 200))
        headers = {} if self.path == "/strange" else {**OF_RETRIER, "Location": "/list"}
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(b'["orders"]')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def answers() -> Iterator[type[Answers]]:
    class Mine(Answers):
        """Of this test alone."""

    Mine.asked, Mine.done = [], threading.Event()
    yield Mine
    Mine.done.set()


@pytest.fixture
def url(answers: type[Answers]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        answers.done.set()
        server.shutdown()
        serving.join()


def test_it_is_what_the_service_answers(url: str, answers: type[Answers]) -> None:
    assert fetch(f"{url}/list", TOKEN, 30) == b'["orders"]'
    assert answers.asked == [("/list", "Bearer abc")]


def test_no_redirect_is_followed(url: str, answers: type[Answers]) -> None:
    with pytest.raises(ServiceUnavailable):
        fetch(f"{url}/moved", TOKEN, 30)

    assert [path for path, _ in answers.asked] == ["/moved"]


@pytest.mark.parametrize("path", ["strange", "broken"])
def test_what_is_no_answer_of_the_service_is_none(url: str, path: str) -> None:
    with pytest.raises(ServiceUnavailable):
        fetch(f"{url}/{path}", {}, 30)


def test_it_waits_no_longer_than_it_was_told(url: str) -> None:
    with pytest.raises(ServiceUnavailable):
        fetch(f"{url}/slow", {}, 0.05)


def test_loopback_is_asked_without_the_proxy_of_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert fetch(f"{url}/list", {}, 30) == b'["orders"]'


def test_where_nobody_listens_is_nothing() -> None:
    with pytest.raises(ServiceUnavailable):
        fetch("http://127.0.0.1:9/list", {}, 30)
