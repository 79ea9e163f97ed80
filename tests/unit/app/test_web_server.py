"""The HTTP server: an answer goes out at once."""

import socket
from collections.abc import Iterator
from time import perf_counter

import httpx
import pytest
from fastapi import FastAPI, Response
from starlette.types import Receive, Scope, Send

from retrier.api.middleware import PEER
from retrier.app.server import Peers, WebServer
from retrier.errors import ConfigurationError, ServiceUnavailable

ACKNOWLEDGED_LATE = 0.04
"""Seconds for which a system keeps an acknowledgement back, in the hope of more to send."""


@pytest.fixture
def server() -> Iterator[WebServer]:
    api = FastAPI()
    api.get("/")(lambda: {"answer": 42})
    server = WebServer(api, "127.0.0.1", 0)
    server.start()
    yield server
    server.stop(5)


def test_no_part_of_an_answer_waits_for_an_acknowledgement(server: WebServer) -> None:
    host, port = server.address
    with httpx.Client(base_url=f"http://{host}:{port}") as http:
        # At first a system acknowledges everything at once.
        seconds = [time_one(http) for _ in range(60)][40:]

    assert min(seconds) < ACKNOWLEDGED_LATE / 2


def time_one(http: httpx.Client) -> float:
    begin = perf_counter()
    http.get("/").raise_for_status()
    return perf_counter() - begin


@pytest.mark.parametrize(
    ("proxies", "client"), [((), "10.0.0.9"), (("10.0.0.9",), "192.0.2.7")], ids=["one", "two"]
)
def test_it_is_known_who_asks_and_where_the_connection_comes_from(
    proxies: tuple[str, ...], client: str
) -> None:
    seen: list[tuple[object, object]] = []

    async def note(scope: Scope, _receive: Receive, send: Send) -> None:
        seen.append((scope[PEER], scope["client"][0]))
        await Response(status_code=204)(scope, _receive, send)

    server = WebServer(Peers(note, proxies), "127.0.0.1", 0)
    server.start()
    host, port = server.address
    told = {"X-Forwarded-For": "192.0.2.7, 10.0.0.9"}
    httpx.get(f"http://{host}:{port}", headers=told).raise_for_status()
    server.stop(5)

    assert seen == [("127.0.0.1", client)]


def test_a_port_that_is_taken_may_be_free_again_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(
            ServiceUnavailable, match=f"port {port}: Address already in use; .*--port"
        ):
            WebServer(FastAPI(), "127.0.0.1", port)


def test_an_address_of_another_host_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"api\.port: cannot listen on 192\.0\.2\.1"):
        WebServer(FastAPI(), "192.0.2.1", 0)
