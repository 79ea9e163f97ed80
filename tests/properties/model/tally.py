"""What the model really did: how often each rule ran, and how often it had any effect."""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

RAN: Counter[str] = Counter()
HAD_EFFECT: Counter[str] = Counter()
EXAMPLES: Counter[str] = Counter()


def counted(rule: Callable[..., object]) -> Callable[..., None]:
    """Count a rule; one that returns False had no effect."""
    name = rule.__name__

    @wraps(rule)
    def run(machine: Any, **drawn: Any) -> None:
        RAN[name] += 1
        if rule(machine, **drawn) is not False:
            HAD_EFFECT[name] += 1

    run.__annotations__["return"] = None
    return run


def note(name: str) -> None:
    """Count something inside a rule that had an effect."""
    RAN[name] += 1
    HAD_EFFECT[name] += 1


def table() -> list[str]:
    """Return one line for each rule."""
    return [f"{RAN[name]:8} ran {HAD_EFFECT[name]:8} had effect  {name}" for name in sorted(RAN)]


def steps() -> int:
    """Return how many rules ran."""
    return sum(number for name, number in RAN.items() if not name.startswith(" "))


def examples() -> int:
    """Return how many examples were begun."""
    return EXAMPLES["begun"]
