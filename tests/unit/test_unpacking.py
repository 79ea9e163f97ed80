"""How a sender says that a body is packed."""

import pytest

from retrier.domain.wire import packed_as


@pytest.mark.parametrize("name", ["content-encoding", "Content-Encoding", "content_encoding"])
def test_a_header_says_it_where_there_is_no_property(name: str) -> None:
    assert packed_as({}, {name: " GZIP "}) == "gzip"


def test_the_property_holds_where_there_are_both() -> None:
    assert packed_as({"content_encoding": "deflate"}, {"content-encoding": "gzip"}) == "deflate"


def test_other_headers_say_nothing_of_it() -> None:
    assert packed_as({"content_type": "gzip"}, {"encoding": "gzip"}) == ""
