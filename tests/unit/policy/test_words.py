"""What a rule does, in words."""

import pytest

from retrier.policy.words import Told, explain


def told(
    delays: list[tuple[float, float]], attempts: int = 3, then: str = "dead", never: str = ""
) -> str:
    names = tuple(never.split())
    return explain(Told(attempts=attempts, delays=delays, then=then, never=names))


def test_delays_are_in_the_largest_unit_that_fits_all() -> None:
    assert told([(60, 60), (300, 300)]) == "after 1 5 minutes, then dead"


@pytest.mark.parametrize(
    ("delays", "words"),
    [
        ([(86400, 86400), (172800, 172800)], "1 2 days"),
        ([(3600, 3600), (7200, 7200)], "1 2 hours"),
        ([(0, 0), (0, 0)], "0 0 seconds"),
        ([(1.5, 1.5), (60, 60)], "1.5 60 seconds"),
        ([(5, 10), (10, 15)], "5-10 s, 10-15 s"),
    ],
)
def test_each_has_its_unit(delays: list[tuple[float, float]], words: str) -> None:
    assert told(delays) == f"after {words}, then dead"


def test_delays_that_are_not_shown_are_counted() -> None:
    assert told([(1, 1)], attempts=10) == "after 1 seconds, and 8 more, then dead"


def test_without_a_retry_it_ends_at_once() -> None:
    assert told([], attempts=1, then="manual") == "waits for a person at once"


def test_reasons_that_are_never_retried_are_named() -> None:
    assert told([(1, 1), (1, 1)], never="A B") == "after 1 1 seconds, then dead; dead at once: A, B"
