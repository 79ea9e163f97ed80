"""Which case runs on which combination: in the long form each on all, in the short one in turns."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.kills.sites import COMBINATIONS


def everywhere(cases: Sequence[Any], *, first: int = 0) -> list[Any]:
    """Return every case on every combination; one of each belongs to the short form, too.

    `first` is the combination with which the turns begin.
    """
    return [
        pytest.param(
            combination,
            case,
            id=f"{case}-{combination}",
            marks=[*combination.marks, pytest.mark.kills, *_short(case, number + first, turn)],
        )
        for number, case in enumerate(cases)
        for turn, combination in enumerate(COMBINATIONS)
    ]


def _short(case: Any, number: int, turn: int) -> list[pytest.MarkDecorator]:
    where = getattr(case, "surely_on", None)
    chosen = (
        number % len(COMBINATIONS) == turn if where is None else where == str(COMBINATIONS[turn])
    )
    return [pytest.mark.short] if chosen else []
