"""Ids made many at a time are what `uuid4` would have made."""

from uuid import RFC_4122, UUID

import pytest

from retrier.store.engine.transaction import make_ids


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_there_are_as_many_as_asked_for_and_no_two_alike(count: int) -> None:
    assert len(set(make_ids(count))) == count


def test_they_are_written_as_random_uuids_are() -> None:
    ids = make_ids(200)

    assert [str(UUID(each)) for each in ids] == ids
    assert {(UUID(each).variant, UUID(each).version) for each in ids} == {(RFC_4122, 4)}
