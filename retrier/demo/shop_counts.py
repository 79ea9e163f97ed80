"""The shop's counts in a file: the shop writes them, and its page in the service reads them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread

from retrier.demo.shop_log import Book, ShopLog
from retrier.private_files import make_private_file

_PAUSE = 0.3
"""Seconds between two looks at the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopCounts:
    """How many orders there are, and where they are, as the shop itself counts them."""

    published: int = 0
    handled: int = 0
    given_up: int = 0
    missing: int = 0
    doubled: int = 0


def count(book: Book) -> ShopCounts:
    """Return the counts of a book. What is still on the queue is missing for a moment."""
    return ShopCounts(
        published=len(book.published),
        handled=len(book.handled),
        given_up=len(book.given_up),
        missing=len(book.missing),
        doubled=len(book.doubled),
    )


def write_counts(file: Path, counts: ShopCounts) -> None:
    """Write them: whoever reads meanwhile finds the old ones or the new ones, never a half."""
    new = file.with_suffix(".new")
    make_private_file(new)
    new.write_text(json.dumps(asdict(counts)))
    new.replace(file)


def read_counts(file: Path) -> ShopCounts:
    """Return what was written last; zeros if nothing was."""
    return ShopCounts(**json.loads(file.read_text())) if file.exists() else ShopCounts()


@contextmanager
def counting(log: ShopLog, file: Path) -> Iterator[None]:
    """Write the counts of a log into a file again and again."""
    stop = Event()

    def write() -> None:
        last = None
        while True:
            ended = stop.wait(_PAUSE)
            now = count(log.read())
            if now != last:
                write_counts(file, now)
                last = now
            if ended:
                return

    thread = Thread(target=write, name="counts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)
