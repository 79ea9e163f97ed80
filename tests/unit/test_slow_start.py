"""How far ingestion opens up."""

import pytest

from retrier.ingestion.parsing import UNACKED_BYTES, next_prefetch

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("current", "average", "expected"),
    [
        pytest.param(1, 2048, 2, id="doubled"),
        pytest.param(256, 2048, 500, id="up to the configured number"),
        pytest.param(500, 2048, 500, id="and no further"),
        pytest.param(16, 2 * MIB, 32, id="up to the bytes"),
        pytest.param(32, 2 * MIB, 32, id="and no further in bytes"),
        pytest.param(1, 20 * MIB, 2, id="two large ones"),
        pytest.param(2, 20 * MIB, 2, id="not four"),
        pytest.param(1, 100 * MIB, 1, id="a giant goes alone"),
        pytest.param(500, 20 * MIB, 1 + 1 + 1, id="shrinks when messages have grown"),
        pytest.param(1, 0, 2, id="empty messages"),
    ],
)
def test_the_prefetch_follows_number_and_bytes(current, average, expected):
    assert next_prefetch(current, average, 500) == expected


@pytest.mark.parametrize("average", [0, 1000, 3 * MIB, 40 * MIB])
def test_slow_start_never_leaves_more_than_the_bound_unacknowledged(average):
    prefetch = 1
    for _ in range(20):
        prefetch = next_prefetch(prefetch, average, 500)

    assert prefetch * average <= UNACKED_BYTES
