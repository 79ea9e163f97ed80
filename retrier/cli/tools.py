"""What commands work with besides their options; tests give them others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event

import httpx
import typer

from retrier.cli.printer import Printer
from retrier.clock import Clock, SystemClock

Headers = Mapping[bytes, bytes]

Connect = Callable[[str, Headers], httpx.Client]
"""Makes an HTTP client of a base URL and the headers of all requests; connects nothing yet."""

_TIMEOUT = httpx.Timeout(60, connect=5)
"""Seconds; counting a million messages takes some."""

_LOOPBACK = ("localhost", "127.", "::1")


def connect(base_url: str, headers: Headers) -> httpx.Client:
    """Make a client; a proxy that the environment names is not asked for this machine itself."""
    is_local = httpx.URL(base_url).host.startswith(_LOOPBACK)
    return httpx.Client(
        base_url=base_url, headers=dict(headers), timeout=_TIMEOUT, trust_env=not is_local
    )


def pause(seconds: float) -> None:
    """Wait; Ctrl-C ends it."""
    Event().wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The outside world of a command."""

    connect: Connect = connect
    pause: Callable[[float], None] = pause
    clock: Clock = field(default_factory=SystemClock)
    printer: Printer = field(default_factory=Printer)


def tools_of(ctx: typer.Context) -> Tools:
    """Return the tools the command line was started with."""
    return ctx.ensure_object(Tools)
