"""How many retries of an operation ended in which way, and an index to find them.

What ended before is counted from what is kept of it. What became of retries whose messages are
deleted by now, nobody knows: they are counted as that.
"""

import sqlalchemy as sa
from alembic import op

revision = "2002"
down_revision = "2001"
branch_labels = None
depends_on = None

Id = sa.String(36).with_variant(sa.UUID(as_uuid=False), "postgresql")
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

COUNTED = ("confirmed", "came_back", "presumed", "resolved", "released")
# One that came back after it was given up: its failure names it. One that was given up before it was
# recorded as forwarded is not counted here: its operation has it among the skipped.
COUNT = """
INSERT INTO retry_operation_outcomes
    (operation_id, confirmed, came_back, presumed, resolved, released)
SELECT operation.operation_id,
       coalesce(sum(CASE WHEN ended.outcome = 'confirmed' THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended.outcome = 'failed' OR late THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended.outcome = 'presumed' AND NOT late THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended.outcome = 'resolved' AND NOT late THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended.outcome = 'released' AND NOT late THEN 1 ELSE 0 END), 0)
FROM retry_operations AS operation
LEFT JOIN (
    SELECT ended.operation_id, ended.outcome,
           ended.outcome IN ('presumed', 'resolved', 'released')
               AND EXISTS (SELECT 1 FROM processing_attempts AS attempt
                           WHERE attempt.number = ended.number
                             AND attempt.retry_id = CAST(ended.retry_id AS TEXT)) AS late
    FROM ended_retries AS ended
    WHERE ended.outcome IN ('confirmed', 'failed') OR ended.forwarded_at IS NOT NULL
) AS ended ON ended.operation_id = operation.operation_id
GROUP BY operation.operation_id
"""

# All that was sent has a claim that waits, or has ended.
REST = """
UPDATE retry_operation_outcomes SET unknown = (
    SELECT operation.forwarded FROM retry_operations AS operation
    WHERE operation.operation_id = retry_operation_outcomes.operation_id
) - confirmed - came_back - presumed - resolved - released - (
    SELECT count(*) FROM failed_message_retries AS claim
    WHERE claim.operation_id = retry_operation_outcomes.operation_id
      AND claim.forwarded_at IS NOT NULL
)
"""


def upgrade() -> None:
    """Make the table with a row for each operation, and the index."""
    op.create_table(
        "retry_operation_outcomes",
        sa.Column("operation_id", Id, nullable=False),
        *(sa.Column(name, Number, nullable=False, server_default=sa.text("0")) for name in COUNTED),
        sa.Column("unknown", Number, nullable=False, server_default=sa.text("0")),
        *(
            sa.CheckConstraint(
                f"{name} >= 0", name=op.f(f"ck_retry_operation_outcomes_counts_{name}")
            )
            for name in COUNTED
        ),
        sa.PrimaryKeyConstraint("operation_id", name=op.f("pk_retry_operation_outcomes")),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["retry_operations.operation_id"],
            name=op.f("fk_retry_operation_outcomes_operation_id"),
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_ended_retries_operation", "ended_retries", ["operation_id", "outcome", "number"]
    )
    op.execute(COUNT)
    op.execute(REST)
