"""Take from the database what made most of the work of storing a failure.

A stack trace stands in four columns of each message, and PostgreSQL's own compression took more
time than all else it does with the row; lz4 takes next to none. And it looked up two rows for each
group of each message, to find what the same transaction had just written.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COMPRESSED = {
    "message_bodies": ["body"],
    "failed_messages": ["stack_trace", "raw_properties", "headers"],
    "processing_attempts": ["stack_trace", "raw_properties"],
    "failed_imports": ["raw_properties", "body"],
}
# PostgreSQL 13 has no such setting, and later ones may be built without lz4.
KNOWS_LZ4 = """
SELECT EXISTS (SELECT 1 FROM pg_settings
               WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals))
"""
GROUPS = "failed_message_groups"
TO_GROUP = "fk_failed_message_groups_group_id"
TO_MESSAGE = "fk_failed_message_groups_unique_message_id"
ORPHANS = """
DELETE FROM failed_message_groups
WHERE unique_message_id NOT IN (SELECT unique_message_id FROM failed_messages)
   OR group_id NOT IN (SELECT group_id FROM failure_groups)
"""


def upgrade() -> None:
    """Compress with lz4 from now on; let groups be written without looking them up."""
    _compress("lz4")
    with op.batch_alter_table(GROUPS) as table:
        table.drop_constraint(TO_GROUP, type_="foreignkey")
        table.drop_constraint(TO_MESSAGE, type_="foreignkey")


def downgrade() -> None:
    """Compress as the server does by default; what is stored can be read either way."""
    op.execute(ORPHANS)
    with op.batch_alter_table(GROUPS) as table:
        table.create_foreign_key(TO_GROUP, "failure_groups", ["group_id"], ["group_id"])
        table.create_foreign_key(
            TO_MESSAGE,
            "failed_messages",
            ["unique_message_id"],
            ["unique_message_id"],
            ondelete="CASCADE",
        )
    _compress("default")


def _compress(method: str) -> None:
    bind = op.get_bind()
    if bind.dialect.name != "postgresql" or not bind.execute(sa.text(KNOWS_LZ4)).scalar_one():
        return
    for table, columns in COMPRESSED.items():
        changes = (f"ALTER COLUMN {column} SET COMPRESSION {method}" for column in columns)
        op.execute(f"ALTER TABLE {table} {', '.join(changes)}")
