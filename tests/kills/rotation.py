"""Which case runs on which combination: in the long form each on all, in the short one in turns."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from tests.kills.scenes import Scene
from tests.kills.sites import COMBINATIONS, ON_SQS, Combination

EACH = 3
"""Of the crash points that the short form has already, one of so many is in it once more."""


def everywhere(
    cases: Sequence[Any],
    *,
    first: int = 0,
    besides: Collection[str] = (),
    covered: Collection[str] = (),
) -> list[Any]:
    """Return every case on every combination; one of each belongs to the short form, too.

    `first` is the combination with which the turns begin, `besides` are brokers that are left out,
    `covered` are crash points that another table has in the short form.
    """
    return [
        pytest.param(
            combination,
            case,
            id=f"{case}-{combination}",
            marks=[
                *combination.marks,
                pytest.mark.kills,
                *([pytest.mark.short] if is_short and is_its_turn else []),
            ],
        )
        for number, case in enumerate(cases)
        for is_short in [number % EACH == 0 or _point_of(case) not in covered]
        for possible in [_find_possible(case, besides)]
        for turn, combination in enumerate(possible)
        for is_its_turn in [(number + first) % len(possible) == turn]
    ]


def _point_of(case: object) -> str:
    return case.point if isinstance(case, Scene) else str(case)


def _find_possible(case: object, besides: Collection[str]) -> list[Combination]:
    """Return where a case can come to its point."""
    in_order = isinstance(case, Scene) and case.in_order
    left_out = {*besides, *(ON_SQS if in_order else ())}
    return [each for each in COMBINATIONS if each.broker not in left_out]
