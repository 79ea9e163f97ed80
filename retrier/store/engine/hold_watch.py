"""How long one transaction holds what others wait for, and which of its statements was slow."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from sqlalchemy import Executable

_LONGEST_SHOWN = 300
"""Characters of a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """How long one transaction has held the lease. `verb` is what it did.

    Its slowest statement took `slowest_seconds`.
    """

    verb: str
    seconds: float
    statements: int
    slowest_statement: Executable | None
    slowest_seconds: float

    @property
    def slowest(self) -> str:
        """The slowest statement, without values.

        Made only if it is asked for: to write a statement takes longer than most take to be executed.
        """
        return " ".join(str(self.slowest_statement).split())[:_LONGEST_SHOWN]


class HoldWatch:
    """Measures a transaction from the moment at which it holds something."""

    __slots__ = ("_began", "_slowest", "_slowest_seconds", "_statements")

    def __init__(self) -> None:
        self._began = monotonic()
        self._statements = 0
        self._slowest: Executable | None = None
        self._slowest_seconds = 0.0

    @contextmanager
    def timing(self, statement: Executable) -> Iterator[None]:
        """Time one statement."""
        began = monotonic()
        try:
            yield
        finally:
            took = monotonic() - began
            self._statements += 1
            if took > self._slowest_seconds:
                self._slowest, self._slowest_seconds = statement, took

    def end(self, verb: str) -> Hold:
        """Return what was measured up to now."""
        return Hold(
            verb=verb,
            seconds=round(monotonic() - self._began, 3),
            statements=self._statements,
            slowest_statement=self._slowest,
            slowest_seconds=round(self._slowest_seconds, 3),
        )
