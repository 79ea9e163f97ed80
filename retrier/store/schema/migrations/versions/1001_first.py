"""The first revision: every table, the sequences, and texts compressed with lz4 on PostgreSQL."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.migrations.first import messages, retries, service

revision = "1001"
down_revision = None
branch_labels = None
depends_on = None

COMPRESSED = {
    "processing_attempts": ["raw_properties", "body"],
    "failed_imports": ["raw_properties", "body"],
}
# PostgreSQL 13 has no such setting, and later ones may be built without lz4.
KNOWS_LZ4 = """
SELECT EXISTS (SELECT 1 FROM pg_settings
               WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals))
"""


def upgrade() -> None:
    """Create everything."""
    messages.create()
    retries.create()
    service.create()
    _compress()


def downgrade() -> None:
    """Drop everything."""
    service.drop()
    retries.drop()
    messages.drop()


def _compress() -> None:
    """Use lz4: PostgreSQL's own method took 85 of 280 us for a failure (decision 0013)."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql" or not bind.execute(sa.text(KNOWS_LZ4)).scalar_one():
        return
    for table, columns in COMPRESSED.items():
        changes = (f"ALTER COLUMN {column} SET COMPRESSION lz4" for column in columns)
        op.execute(f"ALTER TABLE {table} {', '.join(changes)}")
