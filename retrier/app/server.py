"""What listens: the API's server, and the port where health and metrics are told."""

import socket
import threading
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from retrier.app.composition import Parts
from retrier.errors import ConfigurationError, DatabaseUnavailable
from retrier.store.engine.requests import listen_for_requests

_BACKLOG = 128
_GRACE = 3
"""Seconds a request may go on after the stop."""


class WebServer:
    """Listens from the start, so that /health/ready can say what is still missing."""

    def __init__(self, api: FastAPI, host: str, port: int) -> None:
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            api,
            log_config=None,
            # It warns of each request that is no HTTP: whoever sends such would fill the log.
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="api", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: host, and the port that was free if 0 was asked for."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def begin_to_stop(self) -> None:
        """Take no more requests, and finish what is being answered."""
        self._server.should_exit = True

    def stop(self, patience: float) -> None:
        """Wait so many seconds for the last answers, then close."""
        self.begin_to_stop()
        self._thread.join(patience)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        problem = f"api.port: cannot listen on {host} port {port}: {error.strerror}"
        raise ConfigurationError([problem]) from error
    # Connections inherit it. An answer is written in two pieces, head and content: without this
    # the second one waits for the client to acknowledge the first, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


_PAUSE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A thread's work on PostgreSQL. The tick that looks for requests makes up for its gaps."""

    parts: Parts

    def run(self) -> None:
        """Listen until told to stop; connect again after each loss."""
        while not self.parts.stop.is_set():
            try:
                listen_for_requests(self.parts.db, self.parts.stop, self.parts.wake.set)
            except DatabaseUnavailable:
                # Said by the parts that need the database; here only a second or two are lost.
                self.parts.stop.wait(_PAUSE)
