"""Claims are made and stamped without work that is not theirs.

PostgreSQL looked up the message of each new claim, though marking has just locked it: that took
longer than the claims themselves. And each stamp was entered in two indexes that say nothing of it.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

CLAIMS = "failed_message_retries"
TO_MESSAGE = "fk_failed_message_retries_unique_message_id"
ORPHANS = """
DELETE FROM failed_message_retries
WHERE unique_message_id NOT IN (SELECT unique_message_id FROM failed_messages)
"""


def upgrade() -> None:
    """Do without the lookup; leave half of each page free, so that a stamp stays in its page."""
    with op.batch_alter_table(CLAIMS) as table:
        table.drop_constraint(TO_MESSAGE, type_="foreignkey")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {CLAIMS} SET (fillfactor = 50)")


def downgrade() -> None:
    """Look the messages up again, and fill the pages."""
    op.execute(ORPHANS)
    with op.batch_alter_table(CLAIMS) as table:
        table.create_foreign_key(
            TO_MESSAGE,
            "failed_messages",
            ["unique_message_id"],
            ["unique_message_id"],
            ondelete="CASCADE",
        )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {CLAIMS} RESET (fillfactor)")
