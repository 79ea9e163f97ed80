"""Breakers: their states, what each process counts, and under which one a retry is counted."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, Number, UtcTime

revision = "1010"
down_revision = "1008"
branch_labels = None
depends_on = None

_STATES = ("closed", "open", "half_open")


def upgrade() -> None:
    """Add a column and two tables: no row is touched, and no table made anew."""
    op.add_column("failed_message_retries", sa.Column("breaker_id", Number))
    op.create_table(
        "breakers",
        sa.Column("breaker_id", Number, autoincrement=True, nullable=False),
        sa.Column("breaker_key", sa.Text(), nullable=False),
        sa.Column("per", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text()),
        sa.Column("grain_ms", Number),
        sa.Column("last_outcomes", sa.Integer()),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("changed_at", UtcTime, nullable=False),
        sa.Column("opened_at", UtcTime),
        sa.Column("due_at", UtcTime),
        sa.Column("cooldown_ms", Number, server_default=sa.text("0"), nullable=False),
        sa.Column("sent", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("confirms", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("trial_number", Number),
        sa.Column("trial_retry_id", Id()),
        sa.Column("hand", sa.String(16)),
        sa.Column("hand_until", UtcTime),
        sa.Column("hand_who", sa.Text()),
        sa.Column("hand_why", sa.Text()),
        _check("breakers", "per_known", _one_of("per", ("destination", "message_type"))),
        _check("breakers", "state_known", _one_of("state", _STATES)),
        _check("breakers", "hand_known", _one_of("hand", ("open", "closed"))),
        _check("breakers", "open_since", "(state = 'closed') = (opened_at IS NULL)"),
        _check("breakers", "open_until_it_is_tried", "state <> 'open' OR due_at IS NOT NULL"),
        _check("breakers", "one_trial", "(trial_number IS NULL) = (trial_retry_id IS NULL)"),
        _check("breakers", "tried_while_half_open", "trial_number IS NULL OR state = 'half_open'"),
        _check("breakers", "by_hand_until", "(hand IS NULL) = (hand_until IS NULL)"),
        sa.PrimaryKeyConstraint("breaker_id", name="pk_breakers"),
        sa.UniqueConstraint("breaker_key", name="uq_breakers_breaker_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "breaker_counts",
        sa.Column("breaker_id", Number, autoincrement=False, nullable=False),
        sa.Column("since", UtcTime, nullable=False),
        sa.Column("counted_by", Id(), nullable=False),
        sa.Column("sent", sa.Integer(), nullable=False),
        sa.Column("returned", sa.Integer(), nullable=False),
        sa.Column("came_back", sa.Integer(), nullable=False),
        sa.Column("confirmed", sa.Integer(), nullable=False),
        sa.Column("outcomes", sa.Text(), nullable=False),
        _check(
            "breaker_counts",
            "counted_up",
            "sent >= 0 AND returned >= 0 AND came_back >= 0 AND confirmed >= 0",
        ),
        sa.PrimaryKeyConstraint("breaker_id", "since", "counted_by", name="pk_breaker_counts"),
    )


def _one_of(column: str, values: tuple[str, ...]) -> str:
    names = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({names})"


def _check(table: str, name: str, text: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(text, name=op.f(f"ck_{table}_{name}"))


def downgrade() -> None:
    """Take them away."""
    op.drop_table("breaker_counts")
    op.drop_table("breakers")
    op.drop_column("failed_message_retries", "breaker_id")
