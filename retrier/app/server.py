"""The HTTP server of the API, health and metrics, and the thread that hears of requests."""

import os
import socket
import threading
from errno import EADDRINUSE

import uvicorn
from starlette.types import ASGIApp

from retrier.app.parts import Parts
from retrier.errors import ConfigurationError, DatabaseUnavailable, ServiceUnavailable
from retrier.events.service import RequestsHeard, RequestsUnheard
from retrier.store.engine.requests import Listener, Unheard, listen_for_requests

_BACKLOG = 128
_WHAT_TO_DO = "end what listens there, or name another port: --port, or api.port in the settings"
_GRACE = 3
"""Seconds for which a request may go on after the stop."""


class WebServer:
    """Listens from the start, so that /health/ready can show what is still missing."""

    def __init__(self, api: ASGIApp, host: str, port: int) -> None:
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            api,
            log_config=None,
            # Uvicorn warns of each request that is no HTTP: a port scan would fill the log.
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
        """Host and port where it listens; if port 0 was configured, the port that was chosen."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    def begin_to_stop(self) -> None:
        """Accept no more requests, and finish those in progress."""
        self._server.should_exit = True

    def stop(self, timeout: float) -> None:
        """Wait `timeout` seconds for the last answers, then close."""
        self.begin_to_stop()
        self._thread.join(timeout)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        problem = f"cannot listen on {host} port {port}: {_reason(error)}"
        if error.errno == EADDRINUSE:
            # Whoever has it may give it back: a supervisor has to start this process again.
            raise ServiceUnavailable(f"{problem}; {_WHAT_TO_DO}") from error
        raise ConfigurationError([f"api.port: {problem}"]) from error
    # Connections inherit TCP_NODELAY. An answer is written in two pieces, head and content. Without
    # the option the second waits until the client acknowledges the first, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _reason(error: OSError) -> str:
    # Python adds the address to the words of the system, which name it twice then.
    return os.strerror(error.errno) if error.errno else str(error)


_PAUSE = 5.0
_PAUSE_UNHEARD = 60.0
"""Seconds between two tries behind a pooler: it may be set up otherwise meanwhile."""


class Listening:
    """Hears of requests on PostgreSQL, in a thread. The job `requests` finds those it misses."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._is_said = False
        self.hears = False
        """Whether it is proved that notifications arrive, as long as the connection lasts."""

    def run(self) -> None:
        """Listen until the stop; connect again after each loss."""
        listener = Listener(request=self._wake, proved=self._prove)
        while not self._parts.stop.is_set():
            pause = _PAUSE
            try:
                listen_for_requests(self._parts.db, self._parts.stop, listener)
            except Unheard as error:
                pause = _PAUSE_UNHEARD
                self._say_unheard(error)
            except DatabaseUnavailable:
                # Not reported: the parts that need the database do so.
                pass
            finally:
                self.hears = False
            self._parts.stop.wait(pause)

    def _wake(self) -> None:
        self._parts.wake.set()
        self._parts.wake_archiving.set()

    def _prove(self) -> None:
        self.hears = True
        if self._is_said:
            self._parts.emit(RequestsHeard())
        self._is_said = False

    def _say_unheard(self, error: Unheard) -> None:
        if not self._is_said:
            self._parts.emit(RequestsUnheard(reason=str(error)))
        self._is_said = True
