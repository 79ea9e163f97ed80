"""Failed imports that are sent back to a queue, and whether the broker had handed one out before."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, UtcTime

revision = "1003"
down_revision = "1002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column, an index and a table: no row is touched, and no table made anew."""
    op.add_column(
        "failed_imports",
        sa.Column("redelivered", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.create_index("ix_failed_imports_received", "failed_imports", ["received_at"], unique=False)
    op.create_table(
        "failed_import_sends",
        sa.Column("import_id", Id(), nullable=False),
        sa.Column("send_id", Id(), nullable=False),
        sa.Column("sending_to", sa.String(length=255), nullable=False),
        sa.Column("sending_since", UtcTime(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["import_id"],
            ["failed_imports.import_id"],
            name="fk_failed_import_sends_import_id",
        ),
        sa.PrimaryKeyConstraint("import_id", name="pk_failed_import_sends"),
    )


def downgrade() -> None:
    """Take them away."""
    op.drop_table("failed_import_sends")
    op.drop_index("ix_failed_imports_received", table_name="failed_imports")
    op.drop_column("failed_imports", "redelivered")
