"""One line of the result: a figure, what it is compared with, and whether that is enough."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a ratio, or a value without a rival, is to be at least or at most."""

    at_least: float | None = None
    at_most: float | None = None

    def is_reached(self, value: float) -> bool:
        """Say whether a value is good enough."""
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:.2g}"
        return f"≤ {self.at_most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value of Retrier's, beside that of a rival where there is one.

    `ratio` is the value in terms of the rival's.
    """

    figure: str
    what: str
    queues: str = ""
    body: str = ""
    value: float
    unit: str
    rival: str = ""
    rival_value: float | None = None
    target: Target | None = None
    runs: int = 1
    reached_in: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What this line is about."""
        return (self.figure, self.what, self.queues, self.body, self.unit, self.rival)

    @property
    def ratio(self) -> float | None:
        """The value in terms of the rival's."""
        return self.value / self.rival_value if self.rival_value else None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached, in every run; None where there is none."""
        if self.target is None:
            return None
        if self.reached_in is not None:
            return self.reached_in == self.runs
        return self.target.is_reached(self.value if self.ratio is None else self.ratio)

    def beside(self, rival: str, value: float, target: Target | None) -> "Row":
        """Return it with a rival's value beside it."""
        return replace(self, rival=rival, rival_value=value, target=target)

    def as_json(self) -> dict[str, object]:
        """Return it for the JSON file."""
        return {**asdict(self), "ratio": self.ratio, "reached": self.reached}


def sum_up(rows: Iterable[Row]) -> Iterator[Row]:
    """Make one line of the lines of several runs: medians, and in how many the target held."""
    order: dict[tuple[str, ...], int] = {}
    known = list(rows)
    for row in known:
        order.setdefault(row.key, len(order))
    known.sort(key=lambda row: order[row.key])
    for _, group in groupby(known, key=lambda row: row.key):
        yield _merge(list(group))


def _merge(rows: list[Row]) -> Row:
    rivals = [row.rival_value for row in rows if row.rival_value is not None]
    return replace(
        rows[0],
        value=median(row.value for row in rows),
        rival_value=median(rivals) if rivals else None,
        runs=len(rows),
        reached_in=None if rows[0].target is None else sum(bool(row.reached) for row in rows),
    )
