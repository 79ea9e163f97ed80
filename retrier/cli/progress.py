"""Watching an operation: shows its progress until it ends."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

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

from retrier.api.shapes.operations import ArchiveOperationDetails, OperationDetails
from retrier.cli.api_client import ApiClient
from retrier.cli.command import ExitCode, Tools
from retrier.cli.printer import Printer, short_id
from retrier.clock import Clock
from retrier.domain.retry_operation import name_skipped
from retrier.domain.values import dataclass
from retrier.errors import ServiceUnavailable

Watchable = OperationDetails | ArchiveOperationDetails
Op = TypeVar("Op", bound=Watchable)

EVERY = 5.0
"""Seconds between two lines if there is no bar; a change of state is shown at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Generic[Op]):
    """What is watched: its path under /api, its commands, and the words for what it does."""

    shape: type[Op]
    path: str
    noun: str
    command: str
    counted: str
    words: str


RETRIES = Watched(
    shape=OperationDetails,
    path="operations",
    noun="retry",
    command="operations",
    counted="forwarded",
    words="sent back",
)
ARCHIVES = Watched(
    shape=ArchiveOperationDetails,
    path="archive_operations",
    noun="work",
    command="archive-operations",
    counted="done",
    words="changed",
)


class Showing(Protocol):
    """Shows the progress of an operation."""

    def tell(self, found: Watchable) -> None:
        """Show the present state of the operation."""
        ...


@contextmanager
def showing(tools: Tools, watched: Watched[Op]) -> Iterator[Showing]:
    """Yield a bar if standard error is a terminal, else lines."""
    console = tools.printer.err
    if not console.is_terminal:
        yield _Lines(tools.printer, tools.clock, watched)
        return
    with _make_bar(console, tools.clock) as bar:
        yield _Bar(bar)


def done_of(found: Watchable) -> int:
    """Return how many messages of an operation are done: forwarded, skipped or failed."""
    return found["total"] - found["remaining"]


def is_held(found: Watchable) -> bool:
    """Say whether something holds an operation: then its speed so far says nothing about its end."""
    return "waits_because" in found and "estimated_end" not in found


class _Bar:
    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=None, state="", is_held=False)
        self._why = ""

    def tell(self, found: Watchable) -> None:
        why = str(found.get("waits_because")) if is_held(found) else ""
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
    def __init__(self, printer: Printer, clock: Clock, watched: Watched[Any]) -> None:
        self._printer = printer
        self._watched = watched
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._shown: tuple[str, float] = ("", 0.0)

    def tell(self, found: Watchable) -> None:
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

    def _rate(self, found: Watchable, now: float) -> float:
        started, before = self._first or (now, 0)
        if found["state"] == _PAUSED:
            return 0.0
        return (done_of(found) - before) / (now - started) if now > started else 0.0


def _how_far(found: Watchable, rate: float, watched: Watched[Any]) -> str:
    counts: Mapping[str, object] = found
    text = f"{counts[watched.counted]:,} of {found['total']:,} {watched.words}"
    named = {"skipped": name_skipped(found["state"]), "failed": "failed"}
    text += "".join(
        f", {counts[name]:,} {word}" for name, word in named.items() if counts.get(name)
    )
    if rate <= 0 or not found["remaining"] or is_held(found):
        return text
    return f"{text}, {rate:,.0f}/s, {found['remaining'] / rate:,.0f} s left"


def _why_it_waits(found: Watchable) -> str:
    """Say what holds an operation, if something does: who watches would wait for nothing."""
    return f"; {found.get('waits_because')}" if is_held(found) else ""


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


def _is_canary_failed(found: Watchable) -> bool:
    """Say whether an operation paused itself: who watches it would wait for a person for ever."""
    match found.get("canary"):
        case {"state": "failed"}:
            return found["state"] == _PAUSED
        case _:
            return False


def watch_operation(tools: Tools, api: ApiClient, operation_id: str, watched: Watched[Op]) -> Op:
    """Show the progress of an operation until it ends or its canary fails; return its last state.

    Ctrl-C ends the watching, not the operation. Raises ServiceUnavailable if the service is away
    for longer than ABSENCE_TIMEOUT.
    """
    try:
        with showing(tools, watched) as shown:
            return _Watch(tools, api, watched.shape, (watched.path, operation_id)).follow(shown)
    except KeyboardInterrupt:
        short = short_id(operation_id)
        tools.printer.note(
            f"The {watched.noun} goes on. Watch it again with: "
            f"retrier {watched.command} show {short} --watch"
        )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def exit_code_of(found: OperationDetails) -> ExitCode:
    """Return DONE if all messages of an operation were forwarded, else REFUSED."""
    whole = found["state"] == "completed" and not found["failed"] and not found["skipped"]
    return ExitCode.DONE if whole else ExitCode.REFUSED


class _Watch(Generic[Op]):
    def __init__(
        self, tools: Tools, api: ApiClient, shape: type[Op], path: tuple[str, str]
    ) -> None:
        self._shape = shape
        self._tools = tools
        self._api = api
        self._path = path
        self._away_since: float | None = None

    def follow(self, shown: Showing) -> Op:
        while True:
            found = self._look()
            if found is not None:
                shown.tell(found)
                if found["state"] in _OVER or _is_canary_failed(found):
                    return found
            self._tools.pause(LOOK_EVERY)

    def _look(self) -> Op | None:
        try:
            found = self._api.find(self._shape, *self._path)
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
