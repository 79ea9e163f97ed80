"""A server in front of an SQS server, which answers some requests itself: with errors, or not at all."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support.sqs_server import SqsServer

FOR_EVER = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error answer; without a code there is no answer at all."""

    code: str = ""
    status: int = 400
    message: str = "no"
    date: str = ""
    only_for: str = ""
    """A part of the request that has to be there, as JSON; others are passed on."""


@dataclass(slots=True)
class Front:
    """What it does with which action."""

    server: SqsServer
    behind: str
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    changes: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def fail(self, action: str, fault: Fault, times: int = FOR_EVER) -> None:
        """Answer so many requests for an action with an error."""
        self.faults[action] = [fault] * times

    def count(self, action: str) -> int:
        """Return how many requests for an action came."""
        return sum(1 for each, _ in self.asked if each == action)


@contextmanager
def opened_front(server: SqsServer) -> Iterator[Front]:
    """Give a front; it is closed in the end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            action = str(self.headers["X-Amz-Target"]).rpartition(".")[2]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            front.asked.append((action, json.loads(body)))
            faults = front.faults.get(action)
            if not faults or faults[-1].only_for not in json.dumps(front.asked[-1][1]):
                status, told = _forward(front.behind, self.headers, body)
                self._answer(status, front.changes.get(action, _as_it_is)(told))
                return
            fault = faults.pop()
            if not fault.code:
                self.close_connection = True
                return
            told = {"__type": f"com.amazonaws.sqs#{fault.code}", "message": fault.message}
            self._answer(fault.status, told, {"Date": fault.date} if fault.date else {})

        def _answer(self, status: int, told: Any, more: Mapping[str, str] | None = None) -> None:
            body = json.dumps(told).encode()
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), **(more or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_told: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        front = Front(SqsServer(f"http://127.0.0.1:{http.server_port}"), server.endpoint)
        Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield front
        http.shutdown()


def _as_it_is(told: Any) -> Any:
    return told


def _forward(behind: str, headers: Any, body: bytes) -> tuple[int, Any]:
    kept = {name: headers[name] for name in ("X-Amz-Target", "Content-Type", "Authorization")}
    request = Request(behind, data=body, headers=kept)  # noqa: S310 - loopback
    try:
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read() or b"{}")
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}")
