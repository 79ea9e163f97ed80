"""Network namespaces as hosts: a line of their own to each server, and a host name."""

import ctypes
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

CLONE_NEWNET = 0x40000000


class Namespace:
    """A network namespace; each line is a pair of virtual Ethernet devices."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._devices: dict[str, str] = {}
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    @property
    def within(self) -> list[str]:
        """What starts a command inside, under the namespace's name as its host name."""
        start = f'hostname {self.name} && exec "$@"'
        return ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", start, "sh"]

    def add_line(self, to: str) -> str:
        """Lay a line to the outside; return the address of its outer end."""
        outer, inner = f"{self.name}{to[0]}o", f"{self.name}{to[0]}i"
        # Out of the range for carriers: no route of anybody's leads there.
        net = f"100.{random.randrange(64, 128)}.{random.randrange(256)}"  # noqa: S311 - no secret
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self.name)
        self._devices[to] = outer
        run("ip", "addr", "add", f"{net}.1/30", "dev", outer)
        run("ip", "link", "set", outer, "up")
        run("ip", "-n", self.name, "addr", "add", f"{net}.2/30", "dev", inner)
        run("ip", "-n", self.name, "link", "set", inner, "up")
        return f"{net}.1"

    def pull(self, to: str) -> None:
        """Pull a line's plug."""
        run("ip", "link", "set", self._devices[to], "down")

    def plug(self, to: str) -> None:
        """Put a line's plug in again."""
        run("ip", "link", "set", self._devices[to], "up")

    def dial_inside(self, port: int) -> Callable[[], socket.socket]:
        """Return what connects to a port of the loopback inside."""
        return lambda: self._dial(port)

    def remove(self) -> None:
        """Remove it with all its lines."""
        for device in self._devices.values():
            with suppress(subprocess.CalledProcessError):
                run("ip", "link", "del", device)
        run("ip", "netns", "del", self.name)

    def _dial(self, port: int) -> socket.socket:
        """Connect from inside. A socket stays where it was made, and so does this thread."""
        with Path("/run/netns", self.name).open("rb") as place:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
        return socket.create_connection(("127.0.0.1", port))


@contextmanager
def opened_namespace(number: int) -> Iterator[Namespace]:
    """Give a namespace of a random name; it is removed afterwards, whatever happens."""
    namespace = Namespace(f"rt{uuid4().hex[:5]}{number}")
    try:
        yield namespace
    finally:
        namespace.remove()


def why_impossible() -> str | None:
    """Say why there can be no namespaces here, or None if there can."""
    if os.geteuid() != 0:
        return "not root"
    missing = [tool for tool in ("ip", "unshare", "hostname") if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    try:
        with opened_namespace(0) as namespace:
            namespace.add_line("trial")
            run(*namespace.within, "true")
    except subprocess.CalledProcessError as error:
        return str(error.stderr).strip() or str(error)
    return None


def run(*command: str) -> None:
    """Run a command. Raises CalledProcessError with what it said."""
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
