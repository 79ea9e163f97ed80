"""Hosts as requests name them: which machine a client believes that it talks to."""

import re
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_LARGEST_PORT = 65535

_HOST = re.compile(
    r"(\[[0-9a-f.]*:[0-9a-f:.]*\]|[a-z0-9._-]+)(?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Host:
    """A name in lower case or an address, in one way of writing it; no port means any."""

    name: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Hosts:
    """Those under whose names we are asked: the machine itself always, and those listed."""

    listed: frozenset[Host] = frozenset()

    def include(self, host: Host) -> bool:
        """Say whether it is one of them."""
        return is_loopback(host.name) or not self.listed.isdisjoint(
            {host, replace(host, port=None)}
        )


def parse_host(text: str) -> Host | None:
    """Read `name`, `name:port`, `1.2.3.4` or `[::1]:port`; None for anything else.

    Whatever a URL could have beside it, a user or a zone, belongs to no Host header.
    """
    match = _HOST.fullmatch(text)
    name = _canonical(match[1]) if match else None
    port = int(match[2]) if match and match[2] else None
    if not name or (port is not None and not 0 < port <= _LARGEST_PORT):
        return None
    return Host(name, port)


def is_loopback(name: str) -> bool:
    """Say whether a name, or an address without brackets, leads to this machine wherever it is."""
    try:
        address = ip_address(name)
    except ValueError:
        return name == "localhost"
    return any(address in network for network in _LOOPBACK)


def _canonical(name: str) -> str | None:
    """Write it in one way; None for brackets around what is no IPv6 address."""
    try:
        return str(ip_address(name.strip("[]").removesuffix(".")))
    except ValueError:
        return None if name.startswith("[") else name.lower().removesuffix(".")
