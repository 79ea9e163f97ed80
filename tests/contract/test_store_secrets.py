"""What the database's own errors may not give away: the values of a row, the password."""

from io import StringIO

import pytest
from sqlalchemy import insert, text

from retrier.app.log import LineWriter, make_line
from retrier.errors import DatabaseUnavailable, DataRefused
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.schema import failed_messages

BODY = "card-4711"
MESSAGE = "00000000-0000-4000-8000-000000000001"


def refuse_a_row(db: Database) -> DataRefused:
    """Return the error for a row that lacks nearly everything but holds a message's text."""
    with pytest.raises(DataRefused) as caught:
        db.transact(
            lambda tx: tx.execute(
                insert(failed_messages).values(number=1, unique_message_id=MESSAGE, message_id=BODY)
            )
        )
    return caught.value


def test_an_error_does_not_quote_the_values_of_its_statement(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        database.transact(
            lambda tx: tx.execute(text("INSERT INTO nowhere VALUES (:body)"), {"body": BODY})
        )

    assert "nowhere" in str(caught.value.__cause__)
    assert BODY not in str(caught.value.__cause__)


def test_a_refusal_does_not_quote_the_row(database: Database) -> None:
    assert BODY not in str(refuse_a_row(database))


def test_the_log_of_a_refusal_does_not_quote_the_row(database: Database) -> None:
    stream = StringIO()

    LineWriter(stream).write(
        make_line("service.part_failed", part="api", error=refuse_a_row(database))
    )

    assert "IntegrityError" in stream.getvalue()
    assert BODY not in stream.getvalue()


def test_a_place_names_no_password() -> None:
    db = Database(DatabaseOptions(url="postgresql+psycopg://shop:secret@db.example/shop"))

    assert db.place == "db.example:5432/shop"
