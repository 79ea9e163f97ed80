"""Redis servers that a test starts for itself alone: to restart, kill, starve and misconfigure them."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shutil import which
from typing import Any

import redis
import redis.exceptions

from tests.support.private_servers import find_free_ports
from tests.support.servers import give_up
from tests.support.waiting import wait_until

KEEPS = ("--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
"""A server that loses nothing."""
FORGETS = ("--appendonly", "no", "--save", "")
"""A server that forgets everything when it is started again."""


class PrivateRedis:
    """A server on loopback with a port and a folder of its own."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        """Start nothing yet. `options` are those of the command line, the file of a sentinel first."""
        self.port = port or find_free_ports(1)[0]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.options = options
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        file, options = self.options[:1], self.options[1:]
        if file and file[0].startswith("--"):
            file, options = (), self.options
        command = ["redis-server", *file, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self._folder), *options]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=log)
        wait_until(self._answers, 30, "the private Redis answers")

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def client(self, **options: Any) -> Any:
        """Return somebody else's client."""
        return redis.Redis.from_url(self.url, **options)

    def _answers(self) -> bool:
        with suppress(redis.exceptions.ConnectionError), closing(self.client()) as client:
            return bool(client.ping())
        return False


@contextmanager
def private_redis(folder: Path, *options: str, port: int = 0) -> Iterator[PrivateRedis]:
    """Give a running server; it is killed in the end."""
    if which("redis-server") is None:
        give_up("no redis-server to start")
    folder.mkdir(exist_ok=True)
    server = PrivateRedis(folder, *options, port=port)
    server.start()
    try:
        yield server
    finally:
        server.kill()
