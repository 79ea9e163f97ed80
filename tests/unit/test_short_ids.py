"""The beginning of an id stands for the range of ids that begin so."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.text import SHORTEST, ids_beginning


def test_the_range_holds_the_rest_of_the_id() -> None:
    found = ids_beginning("1234ABcd-12")

    assert found is not None
    assert found.first == "1234abcd-1200-0000-0000-000000000000"
    assert found.last == "1234abcd-12ff-ffff-ffff-ffffffffffff"


@given(st.uuids(), st.integers(SHORTEST, 36))
def test_an_id_is_in_the_range_of_its_beginning(whole: UUID, length: int) -> None:
    found = ids_beginning(str(whole)[:length])

    assert found is not None
    assert found.first <= str(whole) <= found.last


@given(st.uuids(), st.uuids(), st.integers(SHORTEST, 36))
def test_an_id_that_begins_otherwise_is_not(whole: UUID, other: UUID, length: int) -> None:
    beginning = str(whole)[:length]
    found = ids_beginning(beginning)

    assert found is not None
    assert (found.first <= str(other) <= found.last) is str(other).startswith(beginning)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1234567",
        "1234567g",
        "123456789",
        "1234-5678",
        "12345678-1234-1234-1234-1234567890ab-",
        "%2345678",
        "١٢٣٤٥٦٧٨",
    ],
)
def test_what_no_id_begins_with_has_no_range(text: str) -> None:
    found = ids_beginning(text)

    assert found is None
