"""The view of the batches: views are made anew at each upgrade, so nothing is left to do here."""

revision = "1016"
down_revision = "1015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table."""


def downgrade() -> None:
    """Change no table."""
