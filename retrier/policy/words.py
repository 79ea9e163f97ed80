"""What a rule does, in words, for all who show rules to people."""

from collections.abc import Iterator, Sequence

from retrier.domain.values import dataclass

_UNITS = ((86400, "d", "days"), (3600, "h", "hours"), (60, "min", "minutes"), (1, "s", "seconds"))
_DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A rule as it is told: `delays` are the shortest and the longest of each, in seconds."""

    attempts: int
    delays: Sequence[tuple[float, float]]
    then: str
    never: Sequence[str] = ()
    only: Sequence[str] = ()


def explain(rule: Told) -> str:
    """Return what a rule does: "after 5-10 s, 10-15 s, then dead"."""
    end = _DEAD if rule.then == _DEAD else "waits for a person"
    retries = max(0, rule.attempts - 1)
    more = f", and {retries - len(rule.delays)} more" if retries > len(rule.delays) else ""
    when = f"after {_in_words(rule.delays)}{more}, then {end}" if rule.delays else f"{end} at once"
    never = f"; {end} at once: {', '.join(rule.never)}" if rule.never else ""
    only = f"; {end} at once: all but {', '.join(rule.only)}" if rule.only else ""
    return f"{when}{never}{only}"


def _in_words(delays: Sequence[tuple[float, float]]) -> str:
    size, short, word = _unit_of(list(_flat(delays)))
    if all(shortest == longest for shortest, longest in delays):
        return f"{' '.join(plain_number(one / size) for one, _ in delays)} {word}"
    return ", ".join(
        f"{plain_number(a / size)}-{plain_number(b / size)} {short}" for a, b in delays
    )


def _flat(delays: Sequence[tuple[float, float]]) -> Iterator[float]:
    for pair in delays:
        yield from pair


def _unit_of(seconds: Sequence[float]) -> tuple[float, str, str]:
    """Return the largest unit in which all of them are whole numbers; else seconds, as of none."""
    if not any(seconds):
        return _UNITS[-1]
    fitting = (unit for unit in _UNITS if all(each % unit[0] == 0 for each in seconds))
    return next(fitting, _UNITS[-1])


def plain_number(value: float) -> str:
    """Return a number without zeros at its end."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
