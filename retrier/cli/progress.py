"""Watching an operation: shows its progress until it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import typer
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

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import ExitCode, Tools
from retrier.cli.printer import Printer, short_id
from retrier.clock import Clock
from retrier.domain.retry_operation import name_skipped
from retrier.errors import ServiceUnavailable

EVERY = 5.0
"""Seconds between two lines if there is no bar; a change of state is shown at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is watched: its path under /api, its commands, and the words for what it does."""

    path: str
    noun: str
    command: str
    counted: str
    words: str


RETRIES = Watched(
    path="operations",
    noun="retry",
    command="operations",
    counted="forwarded",
    words="sent back",
)
ARCHIVES = Watched(
    path="archive_operations",
    noun="work",
    command="archive-operations",
    counted="done",
    words="changed",
)


class Showing(Protocol):
    """Shows the progress of an operation."""

    def tell(self, found: Json) -> None:
        """Show the present state of the operation."""
        ...


@contextmanager
def showing(tools: Tools, watched: Watched = RETRIES) -> Iterator[Showing]:
    """Yield a bar if standard error is a terminal, else lines."""
    console = tools.printer.err
    if not console.is_terminal:
        yield _Lines(tools.printer, tools.clock, watched)
        return
    with _make_bar(console, tools.clock) as bar:
        yield _Bar(bar)


def done_of(found: Json) -> int:
    """Return how many messages of an operation are done: forwarded, skipped or failed."""
    return int(found["total"]) - int(found["remaining"])


def is_held(found: Json) -> bool:
    """Say whether something holds an operation: then its speed so far says nothing about its end."""
    return "waits_because" in found and "estimated_end" not in found


class _Bar:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, state="", is_held=False)
        self._why = ""

    def tell(self, found: Json) -> None:
        why = str(found["waits_because"]) if is_held(found) else ""
        if why != self._why:
            self._why = why
            self._bar.console.print(f"it waits: {why}" if why else "it goes on", markup=False)
        self._bar.update(
            self._task,
            total=found["total"],
            completed=done_of(found),
            state=found["state"],
            is_held=is_held(found),
        )


class _TimeLeft(TimeRemainingColumn):
    """The time left; nothing while something holds the operation."""

    def render(self, task: Task) -> Text:
        return Text("") if task.fields["is_held"] else super().render(task)


class _Rate(ProgressColumn):
    """Messages per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


class _Lines:
    def __init__(self, printer: Printer, clock: Clock, watched: Watched) -> None:
        self._printer = printer
        self._watched = watched
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._shown: tuple[str, float] = ("", 0.0)

    def tell(self, found: Json) -> None:
        now = self._clock.monotonic()
        if self._first is None:
            self._first = (now, done_of(found))
        before, at = self._shown
        state = f"{found['state']}{_why_it_waits(found)}"
        # One that is paused is told once: nothing changes until somebody resumes or cancels it.
        again = now - at >= EVERY and found["state"] != _PAUSED
        if before != state or again:
            self._shown = (state, now)
            how_far = _how_far(found, self._rate(found, now), self._watched)
            self._printer.note(f"{found['state']}: {how_far}{_why_it_waits(found)}")

    def _rate(self, found: Json, now: float) -> float:
        started, before = self._first or (now, 0)
        if found["state"] == _PAUSED:
            return 0.0
        return (done_of(found) - before) / (now - started) if now > started else 0.0


def _how_far(found: Json, rate: float, watched: Watched) -> str:
    text = f"{found[watched.counted]:,} of {found['total']:,} {watched.words}"
    named = {"skipped": name_skipped(found["state"]), "failed": "failed"}
    text += "".join(f", {found[name]:,} {word}" for name, word in named.items() if found.get(name))
    if rate <= 0 or not found["remaining"] or is_held(found):
        return text
    return f"{text}, {rate:,.0f}/s, {found['remaining'] / rate:,.0f} s left"


def _why_it_waits(found: Json) -> str:
    """Say what holds an operation, if something does: who watches would wait for nothing."""
    return f"; {found['waits_because']}" if is_held(found) else ""


def _make_bar(console: Console, clock: Clock) -> Progress:
    return Progress(
        TextColumn("{task.fields[state]}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        _TimeLeft(),
        console=console,
        get_time=clock.monotonic,
    )


LOOK_EVERY = 0.5
"""Seconds between two looks."""

ABSENCE_TIMEOUT = 30.0
"""Seconds the service may be away: it may be restarting, and the operation then continues."""

_OVER = ("completed", "cancelled")
_PAUSED = "paused"


def _is_canary_failed(found: Json) -> bool:
    """Say whether an operation paused itself: who watches it would wait for a person for ever."""
    canary: Json = found.get("canary", {})
    return bool(found["state"] == _PAUSED and canary.get("state") == "failed")


def watch_operation(
    tools: Tools, api: ApiClient, operation_id: str, watched: Watched = RETRIES
) -> Json:
    """Show the progress of an operation until it ends or its canary fails; return its last state.

    Ctrl-C ends the watching, not the operation. Raises ServiceUnavailable if the service is away
    for longer than ABSENCE_TIMEOUT.
    """
    try:
        with showing(tools, watched) as shown:
            return _Watch(tools, api, (watched.path, operation_id)).follow(shown)
    except KeyboardInterrupt:
        short = short_id(operation_id)
        tools.printer.note(
            f"The {watched.noun} goes on. Watch it again with: "
            f"retrier {watched.command} show {short} --watch"
        )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def exit_code_of(found: Json) -> ExitCode:
    """Return DONE if all messages of an operation were forwarded, else REFUSED."""
    whole = found["state"] == "completed" and not found["failed"] and not found["skipped"]
    return ExitCode.DONE if whole else ExitCode.REFUSED


class _Watch:
    def __init__(self, tools: Tools, api: ApiClient, path: tuple[str, str]) -> None:
        self._tools = tools
        self._api = api
        self._path = path
        self._away_since: float | None = None

    def follow(self, shown: Showing) -> Json:
        while True:
            found = self._look()
            if found is not None:
                shown.tell(found)
                if found["state"] in _OVER or _is_canary_failed(found):
                    return found
            self._tools.pause(LOOK_EVERY)

    def _look(self) -> Json | None:
        try:
            found = self._api.find(*self._path)
        except ServiceUnavailable as error:
            self._note_absence(error)
            return None
        self._away_since = None
        return found

    def _note_absence(self, error: ServiceUnavailable) -> None:
        now = self._tools.clock.monotonic()
        if self._away_since is None:
            self._away_since = now
            self._tools.printer.note(f"{error} Trying again for {ABSENCE_TIMEOUT:.0f} s.")
        elif now - self._away_since > ABSENCE_TIMEOUT:
            raise error
