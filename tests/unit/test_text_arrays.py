"""Texts as one array literal."""

import pytest

from retrier.store.engine.arrays import write_array


@pytest.mark.parametrize(
    ("texts", "literal"),
    [
        ([], "{}"),
        ([""], '{""}'),
        (["a", "b"], '{"a","b"}'),
        (["a,b", "{c}"], '{"a,b","{c}"}'),
        (['say "no"', "back\\slash"], '{"say \\"no\\"","back\\\\slash"}'),
        (["NULL"], '{"NULL"}'),
    ],
    ids=["none", "an empty one", "two", "separators", "quotes", "a word that means nothing"],
)
def test_every_text_is_quoted(texts: list[str], literal: str) -> None:
    assert write_array(texts) == literal
