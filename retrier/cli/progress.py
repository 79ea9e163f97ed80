"""How far an operation is, on standard error: a bar on a terminal, a line now and then elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from retrier.cli.api_client import Json
from retrier.cli.printer import Printer
from retrier.cli.tools import Tools
from retrier.clock import Clock

EVERY = 5.0
"""Seconds between two lines where there is no bar, unless the state changes."""


class Showing(Protocol):
    """Shows how far an operation is."""

    def tell(self, found: Json) -> None:
        """Take in how far it is now."""
        ...


@contextmanager
def showing(tools: Tools) -> Iterator[Showing]:
    """Give what suits standard error: a bar, or lines."""
    console = tools.printer.err
    if not console.is_terminal:
        yield _Lines(tools.printer, tools.clock)
        return
    with _make_bar(console, tools.clock) as bar:
        yield _Bar(bar)


def done_of(found: Json) -> int:
    """Return how many messages of an operation are behind it: forwarded, skipped or failed."""
    return int(found["total"]) - int(found["remaining"])


class _Bar:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, state="")

    def tell(self, found: Json) -> None:
        self._bar.update(
            self._task, total=found["total"], completed=done_of(found), state=found["state"]
        )


class _Rate(ProgressColumn):
    """Messages per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


class _Lines:
    def __init__(self, printer: Printer, clock: Clock) -> None:
        self._printer = printer
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._told: tuple[str, float] = ("", 0.0)

    def tell(self, found: Json) -> None:
        now = self._clock.monotonic()
        if self._first is None:
            self._first = (now, done_of(found))
        state, at = self._told
        if state != found["state"] or now - at >= EVERY:
            self._told = (found["state"], now)
            self._printer.note(f"{found['state']}: {_how_far(found, self._rate(found, now))}")

    def _rate(self, found: Json, now: float) -> float:
        started, before = self._first or (now, 0)
        return (done_of(found) - before) / (now - started) if now > started else 0.0


def _how_far(found: Json, rate: float) -> str:
    text = f"{done_of(found):,} of {found['total']:,} done"
    if rate <= 0 or not found["remaining"]:
        return text
    return f"{text}, {rate:,.0f}/s, {found['remaining'] / rate:,.0f} s left"


def _make_bar(console: Console, clock: Clock) -> Progress:
    return Progress(
        TextColumn("{task.fields[state]}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        get_time=clock.monotonic,
    )
