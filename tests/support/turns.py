"""Whose turn it is when several processes share the tests: what measures time is tested alone."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tests.support.project import ROOT

HOUSE = (ROOT / "README.md", ROOT / "pyproject.toml")
"""Door and room. Files that are there anyway: two runs of one place wait for each other, too."""


@contextmanager
def turn(*, alone: bool, house: tuple[Path, Path] = HOUSE) -> Iterator[None]:
    """Go on beside the others; `alone`, wait until none of them does anything, and keep them out."""
    with house[0].open() as door, house[1].open() as room:
        # Who waits for an empty room stands in the door: else the others would always be quicker.
        with locked(door, fcntl.LOCK_EX):
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            # Closing is not enough: a child that was forked meanwhile has the file open as well.
            fcntl.flock(room, fcntl.LOCK_UN)


@contextmanager
def locked(file: TextIO, how: int) -> Iterator[None]:
    """Hold a lock."""
    fcntl.flock(file, how)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
