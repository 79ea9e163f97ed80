"""The hosts on which the instances run, each with a way of its own to broker and database."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
import yaml

from tests.endurance.instances.namespaces import Namespace, opened_namespace
from tests.support.plain_http import client_at
from tests.support.service import START_DEADLINE, Service
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

BROKER, DATABASE = "broker", "database"
SERVERS = (BROKER, DATABASE)


class Lines(Protocol):
    """A host's lines to the servers."""

    within: tuple[str, ...]

    def cut(self, server: str) -> None:
        """Let every packet to and from a server vanish."""
        ...

    def heal(self, server: str) -> None:
        """Let packets through again."""
        ...

    def open_door(self, stack: ExitStack, url: str) -> str:
        """Return the URL at which the API is reached from here."""
        ...


class Proxies:
    """All on this host: a line is a proxy that stops passing on."""

    within: tuple[str, ...] = ()

    def __init__(self, proxies: Mapping[str, TcpProxy]) -> None:
        self._proxies = proxies

    def cut(self, server: str) -> None:
        """Pass nothing on."""
        self._proxies[server].freeze()

    def heal(self, server: str) -> None:
        """Pass everything on."""
        self._proxies[server].thaw()

    def open_door(self, stack: ExitStack, url: str) -> str:
        """The API is on this host."""
        del stack
        return url


class Plugs:
    """A host in a namespace: a line is a pair of devices, one of which is taken down."""

    def __init__(self, namespace: Namespace) -> None:
        self.within = tuple(namespace.within)
        self.cut = namespace.pull
        self.heal = namespace.plug
        self._namespace = namespace

    def open_door(self, stack: ExitStack, url: str) -> str:
        """Pass connections in."""
        dial = self._namespace.dial_inside(urlsplit(url).port or 0)
        return stack.enter_context(TcpProxy(url, dial=dial)).url


@dataclass(slots=True)
class Node:
    """One instance on its host. `cuts` are the servers it cannot reach now."""

    name: str
    config: Path
    lines: Lines
    service: Service | None = None
    base_url: str = ""
    cuts: set[str] = field(default_factory=set)
    logged: list[dict[str, Any]] = field(default_factory=list)
    _doors: ExitStack = field(default_factory=ExitStack)

    @property
    def pid(self) -> int:
        """Its process, or 0 when it is down."""
        return self.service.pid if self.service else 0

    def start(self) -> None:
        """Start the process and wait until its API listens."""
        service = Service(self.config, {}, (), within=self.lines.within)
        self.service = service
        wait_until(
            lambda: service.find("api.listening") or service.process.poll() is not None,
            START_DEADLINE,
            "the API listens",
        )
        port = service.find("api.listening")[0]["port"]
        self.base_url = self.lines.open_door(self._doors, f"http://127.0.0.1:{port}")

    def kill(self) -> None:
        """SIGKILL."""
        if self.service is not None:
            self.service.kill()
            self.logged += self.service.logged
            self.service = None
            self._doors.close()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def cut(self, *servers: str) -> None:
        """Cut it off from servers."""
        for server in servers:
            self.lines.cut(server)
            self.cuts.add(server)

    def heal(self) -> None:
        """Heal what is cut."""
        for server in sorted(self.cuts):
            self.lines.heal(server)
        self.cuts.clear()

    def ask(self, method: str, path: str, timeout: float = 5) -> httpx.Response:
        """Ask its API. Raises httpx.HTTPError."""
        with client_at(self.base_url, timeout=timeout) as http:
            return http.request(method, path)

    def is_well(self) -> bool:
        """Whether every part of it works; the queues' depths are looked at seldom, and left out."""
        try:
            parts = self.ask("GET", "/health/ready").json()["parts"]
        except (httpx.HTTPError, ValueError):
            return False
        return all(part["ok"] for name, part in parts.items() if name != BROKER)

    def story(self) -> list[dict[str, Any]]:
        """Return all log lines of all its processes."""
        return [*self.logged, *(self.service.logged if self.service else [])]

    def close(self) -> None:
        """End it."""
        self.wake()
        self.heal()
        self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self.service is not None:
            self.service.process.send_signal(number)


@contextmanager
def opened_nodes(
    folder: Path, settings: Mapping[str, Any], count: int, *, namespaces: bool
) -> Iterator[list[Node]]:
    """Give hosts with an instance each, none of them started; all is removed afterwards."""
    with ExitStack() as stack:
        nodes = []
        for number in range(1, count + 1):
            node = (_enter_namespace if namespaces else _enter_proxies)(
                stack, folder, settings, number
            )
            stack.callback(node.close)
            nodes.append(node)
        yield nodes


def _enter_namespace(
    stack: ExitStack, folder: Path, settings: Mapping[str, Any], number: int
) -> Node:
    namespace = stack.enter_context(opened_namespace(number))
    at = {
        server: stack.enter_context(
            TcpProxy(settings[server]["url"], host=namespace.add_line(server))
        )
        for server in SERVERS
    }
    config = _write(folder, namespace.name, settings, at)
    return Node(namespace.name, config, Plugs(namespace))


def _enter_proxies(
    stack: ExitStack, folder: Path, settings: Mapping[str, Any], number: int
) -> Node:
    at = {server: stack.enter_context(TcpProxy(settings[server]["url"])) for server in SERVERS}
    name = f"node{number}"
    return Node(name, _write(folder, name, settings, at), Proxies(at))


def _write(
    folder: Path, name: str, settings: Mapping[str, Any], at: Mapping[str, TcpProxy]
) -> Path:
    """Write the settings of one host: they name its own ways to the servers."""
    own = deepcopy(dict(settings))
    for server in SERVERS:
        own[server]["url"] = at[server].url
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(own))
    return config
