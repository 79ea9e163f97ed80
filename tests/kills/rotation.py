"""Which case runs on which combination: in the long form each on all, in the short one in turns."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from tests.kills.scenes import Scene
from tests.kills.sites import COMBINATIONS, ON_SQS, Combination


def everywhere(cases: Sequence[Any], *, first: int = 0, besides: Collection[str] = ()) -> list[Any]:
    """Return every case on every combination; one of each belongs to the short form, too.

    `first` is the combination with which the turns begin, `besides` are brokers that are left out.
    """
    return [
        pytest.param(
            combination,
            case,
            id=f"{case}-{combination}",
            marks=[
                *combination.marks,
                pytest.mark.kills,
                *_short(number + first, turn, len(possible)),
            ],
        )
        for number, case in enumerate(cases)
        for possible in [_find_possible(case, besides)]
        for turn, combination in enumerate(possible)
    ]


def _find_possible(case: object, besides: Collection[str]) -> list[Combination]:
    """Return where a case can come to its point."""
    in_order = isinstance(case, Scene) and case.in_order
    left_out = {*besides, *(ON_SQS if in_order else ())}
    return [each for each in COMBINATIONS if each.broker not in left_out]


def _short(number: int, turn: int, turns: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.short] if number % turns == turn else []
