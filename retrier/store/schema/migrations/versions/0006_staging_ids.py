"""Staging ids are kept, so that a copy of ours can be told from what merely looks like one.

A batch in Forwarding has copies somewhere, made by the version before: its id is known from now on.
Those of earlier batches were never kept. A copy of theirs that still comes becomes a failed import.
"""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import UtcTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

OF_BATCHES_ALIVE = """
INSERT INTO staging_ids (staging_id, made_at)
SELECT staging_id, MAX(modified_at) FROM retry_batches
WHERE staging_id IS NOT NULL GROUP BY staging_id
"""


def upgrade() -> None:
    """Create the table, and fill it with what is known."""
    op.create_table(
        "staging_ids",
        sa.Column("staging_id", sa.String(length=36), nullable=False),
        sa.Column("made_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("staging_id", name="pk_staging_ids"),
    )
    op.create_index("ix_staging_ids_sweep", "staging_ids", ["made_at"], unique=False)
    op.execute(OF_BATCHES_ALIVE)


def downgrade() -> None:
    """Drop it."""
    op.drop_table("staging_ids")
