"""What a plan needs: in which order messages were archived and sent, and to which queue."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Number

revision = "1027"
down_revision = "1026"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("failed_messages", "changed_seq", Number),
    ("failed_message_retries", "sent_seq", Number),
    ("failed_message_retries", "sent_to", sa.Text()),
    ("failed_imports", "stored_seq", Number),
)

# Where a retry went was worked out until now: the destination of its operation, or a redirect that
# was there when it was sent. What was deleted since cannot be known any more.
_WENT_ELSEWHERE = """
UPDATE failed_message_retries SET sent_to = (
    SELECT COALESCE(o.destination, d.to_queue)
    FROM failed_messages m
    JOIN causes c ON c.cause_id = m.cause_id
    LEFT JOIN retry_operations o ON o.operation_id = failed_message_retries.operation_id
    LEFT JOIN message_redirects d ON d.from_queue = c.destination
        AND d.modified_at <= COALESCE(failed_message_retries.sending_since, d.modified_at)
    WHERE m.number = failed_message_retries.number
      AND COALESCE(o.destination, d.to_queue) <> c.destination
)
WHERE EXISTS (SELECT 1 FROM message_redirects)
   OR operation_id IN (SELECT operation_id FROM retry_operations WHERE destination IS NOT NULL)
"""


def upgrade() -> None:
    """Add columns; what is in them of rows that are there has no number."""
    for table, name, kind in _COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=True))
    op.execute(_WENT_ELSEWHERE)


def downgrade() -> None:
    """Take them away."""
    for table, name, _ in reversed(_COLUMNS):
        op.drop_column(table, name)
