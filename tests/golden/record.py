"""The record: what is seen from outside, in chapters of one text for each thing that is asked."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import copyfile

from sqlalchemy import make_url

from tests.golden import api, cli, page, run
from tests.golden.frozen import Sent
from tests.golden.names import Names
from tests.golden.story import Known, Story
from tests.golden.world import World
from tests.support.databases import open_upgraded, path_of, sqlite_url, temporary_postgres

RECORD = Path(__file__).parent / "record"
KINDS = ("sqlite", "postgres")
TITLE = "##### "
COMMAND = "python -m tests.golden"

Sections = dict[str, str]
Copies = Callable[[], AbstractContextManager[str]]
Chapter = Callable[[World, Known], Sections]

CHAPTERS: Mapping[str, Chapter] = {"api": api.recorded, "page": page.recorded, "cli": cli.recorded}
"""What is asked for, each in a world of its own, in which the story was told."""

LISTS = ("operations", "batches", "archive_operations", "imports", "eventlogitems")
"""Where the ids of a world stand whole, whose beginnings others show."""

LEFT: Mapping[str, Callable[[World], Sections]] = {
    "log": run.log,
    "metrics": run.metrics,
    "published": run.published,
}
"""What the story leaves behind."""


def take(kind: str, server: str | None) -> dict[str, Sections]:
    """Return all chapters as they are on a database of this kind."""
    with tempfile.TemporaryDirectory() as folder, _told(kind, server, Path(folder)) as told:
        chapters = {name: told.take(chapter) for name, chapter in CHAPTERS.items()}
        return {**told.left, **chapters, "statements": run.statements(told.sent)}


class Told:
    """The story has been told in one database; each chapter has a copy of it."""

    def __init__(self, url: str, copies: Copies, folder: Path) -> None:
        self._copies = copies
        self._folder = folder
        self.sent: list[Sent] = []
        """What each world has sent to its database."""
        self._logs: list[str] = []
        with self._world(url) as world:
            self.known = Story(world).tell()
            self.elapsed = world.clock.elapsed
            left = {name: leave(world) for name, leave in LEFT.items()}
            self.left = {name: self._named(world, url, each) for name, each in left.items()}

    def take(self, chapter: Chapter) -> Sections:
        """Return a chapter, with names for what differs from run to run."""
        with self._copies() as url, self._world(url, self.elapsed) as world:
            return self._named(world, url, chapter(world, self.known))

    def _named(self, world: World, url: str, found: Sections) -> Sections:
        places = {url: "<database>", world.db.place: "<database>", str(self._folder): "<folder>"}
        names = Names(places)
        self._logs.append(world.log.getvalue())
        lists = (world.http.get(f"/api/{name}?per_page=500").text for name in LISTS)
        for text in (*lists, *self._logs, *self.known.values(), *found.values()):
            names.learn(text)
        return {title: names.apply(text) for title, text in found.items()}

    @contextmanager
    def _world(self, url: str, elapsed: float = 0.0) -> Iterator[World]:
        world = World(url, self._folder, elapsed)
        try:
            yield world
            self.sent.append(world.sent)
        finally:
            world.close()


@contextmanager
def _told(kind: str, server: str | None, folder: Path) -> Iterator[Told]:
    if kind == "sqlite":
        url = sqlite_url(folder)
        open_upgraded(url).dispose()

        @contextmanager
        def copies() -> Iterator[str]:
            copy = sqlite_url(folder)
            copyfile(path_of(url), path_of(copy))
            yield copy

        yield Told(url, copies, folder)
    else:
        assert server is not None
        with temporary_postgres(server) as url:
            open_upgraded(url).dispose()
            template = str(make_url(url).database)
            yield Told(url, lambda: temporary_postgres(server, template), folder)


def read(kind: str) -> dict[str, Sections]:
    """Return what is recorded for a kind of database."""
    found: dict[str, Sections] = {}
    for file in sorted(RECORD.glob("*.txt")):
        name, _, of = file.stem.partition(".")
        if of in {"", kind}:
            found.setdefault(name, {}).update(_parse(file.read_text()))
    return found


def write(taken: Mapping[str, Mapping[str, Sections]]) -> None:
    """Write the record: one file for both kinds, and one for each where they differ."""
    RECORD.mkdir(exist_ok=True)
    for file in RECORD.glob("*.txt"):
        file.unlink()
    first, second = (taken[kind] for kind in KINDS)
    for name in first:
        same = {t: text for t, text in first[name].items() if second[name].get(t) == text}
        _write(name, same)
        for kind in KINDS:
            own = {t: text for t, text in taken[kind][name].items() if t not in same}
            _write(f"{name}.{kind}", own)


def _write(name: str, sections: Sections) -> None:
    texts = [f"{TITLE}{title}\n{text}\n\n" for title, text in sections.items()]
    if texts:
        (RECORD / f"{name}.txt").write_text("".join(texts))


def _parse(text: str) -> Sections:
    parts = text.removeprefix(TITLE).split(f"\n\n{TITLE}")
    pairs = (part.partition("\n") for part in parts)
    return {title: body.removesuffix("\n\n") for title, _, body in pairs}


__all__ = ["CHAPTERS", "COMMAND", "KINDS", "read", "take", "write"]
