"""Values as one array literal."""

import pytest
from sqlalchemy.dialects import postgresql

from retrier.store.engine.sql_dialect import Array, array_like, write_array
from retrier.store.schema import causes, failed_messages

DIALECT = postgresql.dialect()
ONE, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


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


@pytest.mark.parametrize(
    ("kind", "values", "literal"),
    [
        ("UUID", [ONE, OTHER], f"{{{ONE},{OTHER}}}"),
        ("BIGINT", [1, 2**62], "{1,4611686018427387904}"),
        ("BYTEA", ["00ff", "10"], '{"\\\\x00ff","\\\\x10"}'),
        ("UUID", [], "{}"),
        ("BYTEA", [], "{}"),
    ],
    ids=["ids", "numbers", "hashes", "no ids", "no hashes"],
)
def test_other_values_are_written_as_the_server_reads_them(
    kind: str, values: list[object], literal: str
) -> None:
    assert Array(kind).bind_processor(DIALECT)(values) == literal


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (failed_messages.c.unique_message_id, "UUID[]"),
        (failed_messages.c.number, "BIGINT[]"),
        (causes.c.fingerprint, "BYTEA[]"),
        (causes.c.queue, "TEXT[]"),
        (failed_messages.c.status, "TEXT[]"),
    ],
    ids=["id", "number", "hash", "text", "word"],
)
def test_an_array_is_of_what_its_column_holds(column: object, kind: str) -> None:
    assert array_like(column).get_col_spec() == kind  # type: ignore[arg-type]
