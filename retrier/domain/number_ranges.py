"""Numbers as ranges, to write many of them down in few characters."""

from collections.abc import Iterable, Sequence


def to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return ascending numbers as pairs of first and last, both included."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def is_within(number: int, ranges: Sequence[Sequence[int]]) -> bool:
    """Say whether one of the ranges has the number."""
    return any(first <= number <= last for first, last in ranges)
