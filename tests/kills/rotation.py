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
            marks=[*combination.marks, pytest.mark.kills, *_short(number + first, turn)],
        )
        for number, case in enumerate(cases)
        for turn, combination in enumerate(COMBINATIONS)
    ]


def _short(number: int, turn: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.short] if number % len(COMBINATIONS) == turn else []
