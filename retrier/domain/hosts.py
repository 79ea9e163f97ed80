"""Hosts and origins as the headers of a request name them, and the proxies that tell of them."""

import re
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from retrier.domain.values import dataclass

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_LARGEST_PORT = 65535

_HOST = re.compile(
    r"(\[[0-9a-f.]*:[0-9a-f:.]*\]|[a-z0-9._-]+)(?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Host:
    """A name in lower case, or an address in its canonical form; without a port any port fits."""

    name: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that requests may name: loopback addresses and localhost, and those listed."""

    listed: frozenset[Host] = frozenset()

    def include(self, host: Host) -> bool:
        """Say whether requests may name this host."""
        return is_loopback(host.name) or not self.listed.isdisjoint(
            {host, replace(host, port=None)}
        )


def parse_host(text: str) -> Host | None:
    """Read `name`, `name:port`, `1.2.3.4` or `[::1]:port`; None for anything else.

    A user or an IPv6 zone, which a URL can have, is not allowed in a Host header.
    """
    match = _HOST.fullmatch(text)
    name = _canonical(match[1]) if match else None
    port = int(match[2]) if match and match[2] else None
    if not name or (port is not None and not 0 < port <= _LARGEST_PORT):
        return None
    return Host(name, port)


def is_loopback(name: str) -> bool:
    """Say whether a name, or an address without brackets, always means the local machine."""
    try:
        address = ip_address(name)
    except ValueError:
        return name == "localhost"
    return any(address in network for network in _LOOPBACK)


def _canonical(name: str) -> str | None:
    """Return the canonical form; None for brackets around something that is no IPv6 address."""
    try:
        return str(ip_address(name.strip("[]").removesuffix(".")))
    except ValueError:
        return None if name.startswith("[") else name.lower().removesuffix(".")


_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a web page comes from, as browsers name it; the port is always there."""

    scheme: str
    host: str
    port: int


def parse_origin(text: str) -> Origin | None:
    """Read `https://name` or `http://1.2.3.4:port`; None for anything else, such as `null` or `*`."""
    scheme, divider, rest = text.partition("://")
    host = parse_host(rest) if divider and scheme.lower() in _PORTS else None
    if host is None:
        return None
    return Origin(scheme.lower(), host.name, host.port or _PORTS[scheme.lower()])


Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies that are trusted to say which host their clients asked for."""

    networks: frozenset[Network] = frozenset()

    def include(self, address: str) -> bool:
        """Say whether a request from this address comes from one of them."""
        try:
            told = ip_address(address)
        except ValueError:
            return False
        return any(told in network for network in self.networks)


def parse_network(text: str) -> Network | None:
    """Read an address, or a network such as 10.0.0.0/8; None for anything else."""
    try:
        return ip_network(text)
    except ValueError:
        return None
