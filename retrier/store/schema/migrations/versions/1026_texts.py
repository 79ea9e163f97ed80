"""Each message's own text, folded: what is searched. Filled later, as the broker's bytes are read."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import ByCodePoint, Digest, Number

revision = "1026"
down_revision = "1025"
branch_labels = None
depends_on = None

_WITHOUT = sa.text("text_id IS NULL")


def upgrade() -> None:
    """Add the table and the column; `complete_texts` fills both, in chunks, and can be killed."""
    op.create_table(
        "message_texts",
        sa.Column("text_id", Number, autoincrement=True, nullable=False),
        sa.Column("digest", Digest, nullable=False),
        sa.Column("folded", ByCodePoint, nullable=False),
        sa.PrimaryKeyConstraint("text_id", name=op.f("pk_message_texts")),
        sa.UniqueConstraint("digest", name=op.f("uq_message_texts_digest")),
        sqlite_autoincrement=True,
    )
    op.add_column("failed_messages", sa.Column("text_id", Number, nullable=True))
    op.create_index("ix_failed_messages_text", "failed_messages", ["text_id", "status"])
    op.create_index(
        "ix_failed_messages_without_text",
        "failed_messages",
        ["number"],
        postgresql_where=_WITHOUT,
        sqlite_where=_WITHOUT,
    )
    _collate("C")


def downgrade() -> None:
    """Take them away."""
    _collate("default")
    op.drop_index("ix_failed_messages_without_text", table_name="failed_messages")
    op.drop_index("ix_failed_messages_text", table_name="failed_messages")
    op.drop_column("failed_messages", "text_id")
    op.drop_table("message_texts")


def _collate(collation: str) -> None:
    """Sort message ids by code point, as SQLite does; rewrites their index, and not the table."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f'ALTER TABLE failed_messages ALTER COLUMN message_id TYPE text COLLATE "{collation}"'
        )
