"""Words: what stands in messages, for those who search it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "2009"
down_revision = "2008"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Words = sa.Text().with_variant(TSVECTOR(), "postgresql")

# The words are cut before they are stored: here a blank ends one, and nothing else does.
_INDEX = (
    "CREATE VIRTUAL TABLE message_words_index USING fts5(words, content='message_words', "
    "content_rowid='number', tokenize=\"ascii tokenchars '_'\")"
)
_ADD = "INSERT INTO message_words_index (rowid, words) VALUES (new.number, new.words);"
_REMOVE = (
    "INSERT INTO message_words_index (message_words_index, rowid, words) "
    "VALUES ('delete', old.number, old.words);"
)


def upgrade() -> None:
    """Make the tables; no message has words yet, and none gets any as long as nobody wants them."""
    op.create_table(
        "message_words",
        sa.Column("number", Number, autoincrement=False, nullable=False),
        sa.Column("seq", Number, nullable=False),
        sa.Column("words", Words, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_message_words")),
    )
    op.create_table(
        "word_progress",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("newest", Number, nullable=False),
        sa.Column("backlog", Number, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_word_progress_one_progress")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_word_progress")),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_index(
            "ix_message_words_words", "message_words", ["words"], postgresql_using="gin"
        )
        return
    op.execute(_INDEX)
    for name, when, does in (
        ("added", "INSERT", _ADD),
        ("removed", "DELETE", _REMOVE),
        ("changed", "UPDATE", f"{_REMOVE} {_ADD}"),
    ):
        op.execute(
            f"CREATE TRIGGER message_words_{name} AFTER {when} ON message_words BEGIN {does} END"
        )
