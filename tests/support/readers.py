"""Who follows the live feed over HTTP, in a thread of its own; and a server to follow."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from retrier.app.server import WebServer
from tests.support.api import Api
from tests.support.plain_http import client_at
from tests.support.waiting import wait_until

IN_TIME = 10.0


class Reader:
    """Follows `GET /api/events` from when it is made until it is closed.

    `events` holds what came; `last_id` is where it would go on; `ended`: the answer is over.
    """

    def __init__(
        self, base: str, last_event_id: str | None = None, place: str | None = None, **params: str
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.last_id = ""
        self.comments = 0
        self.ended = threading.Event()
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        params |= {} if place is None else {"last_event_id": place}
        self._http = client_at(base)
        request = self._http.build_request("GET", "/api/events", params=params, headers=headers)
        self.answer = self._http.send(request, stream=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the events that came, in their order."""
        return [str(each["kind"]) for each in self.events]

    def wait_for(self, kind: str, seconds: float = IN_TIME) -> dict[str, Any]:
        """Wait for an event of this kind; return the first."""
        wait_until(lambda: kind in self.kinds, seconds, f"{kind} has not come")
        return next(each for each in self.events if each["kind"] == kind)

    def leave(self) -> None:
        """Close the connection."""
        # Not close(): the thread waits in there, and the connection would stay open meanwhile.
        line = self.answer.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        self.ended.wait(IN_TIME)
        self._http.close()

    def _read(self) -> None:
        try:
            for line in self.answer.iter_lines():
                self._take(line)
        except (httpx.HTTPError, httpx.StreamError, OSError):
            pass
        self.ended.set()

    def _take(self, line: str) -> None:
        name, _, value = line.partition(": ")
        match name:
            case "id":
                self.last_id = value
            case "data":
                self.events.append(json.loads(value) | {"last_id": self.last_id})
            case "":
                self.comments += bool(value)
            case _:
                pass


@contextmanager
def served(api: Api) -> Iterator[str]:
    """Serve an API on a port of its own; give its address."""
    server = WebServer(api.app, "127.0.0.1", 0)
    server.start()
    host, port = server.address
    try:
        yield f"http://{host}:{port}"
    finally:
        api.app.state.parts.feed.stop()
        server.stop(IN_TIME)
        api.app.state.parts.feed.wait(IN_TIME)
