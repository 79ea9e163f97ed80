"""Who may ask: tokens, sessions of browsers, log-ins under way, approvals by a second person."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "2004"
down_revision = "2003"
branch_labels = None
depends_on = None

Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UtcTime = sa.DateTime(timezone=True)
Id = sa.String(36).with_variant(sa.UUID(as_uuid=False), "postgresql")
Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

_ROLES = "role IN ('reader', 'reader+content', 'operator', 'admin')"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "access_tokens",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("queues", Json),
        sa.Column("expires_at", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("revoked_at", UtcTime),
        sa.Column("revoked_by", sa.Text()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_access_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_access_tokens_sha256")),
        sa.CheckConstraint(_ROLES, name=op.f("ck_access_tokens_role_known")),
        sa.CheckConstraint(
            "(revoked_at IS NULL) = (revoked_by IS NULL)",
            name=op.f("ck_access_tokens_revoked_by_somebody"),
        ),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("queues", Json),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_browser_sessions")),
        sa.CheckConstraint(_ROLES, name=op.f("ck_browser_sessions_role_known")),
    )
    op.create_index("ix_browser_sessions_subject", "browser_sessions", ["subject"])
    op.create_table(
        "login_attempts",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("back", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_login_attempts")),
    )
    op.create_table(
        "approvals",
        sa.Column("operation_id", Id, nullable=False),
        sa.Column("plan_hash", sa.String(64), nullable=False),
        sa.Column("total", Number, nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_as", sa.Text(), nullable=False),
        sa.Column("asked_at", UtcTime, nullable=False),
        sa.Column("lapses_at", UtcTime, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("decided_at", UtcTime),
        sa.Column("decided_by", sa.Text()),
        sa.Column("decided_as", sa.Text()),
        sa.PrimaryKeyConstraint("operation_id", name=op.f("pk_approvals")),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["retry_operations.operation_id"],
            name=op.f("fk_approvals_operation_id"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "state IN ('asked', 'approved', 'refused', 'lapsed')",
            name=op.f("ck_approvals_state_known"),
        ),
        sa.CheckConstraint(
            "(state = 'asked') = (decided_at IS NULL)", name=op.f("ck_approvals_decided_when_over")
        ),
        sa.CheckConstraint(
            "(decided_by IS NULL) = (decided_as IS NULL)",
            name=op.f("ck_approvals_decided_by_somebody"),
        ),
        sa.CheckConstraint(
            "state <> 'approved' OR decided_as IS NOT NULL",
            name=op.f("ck_approvals_approved_by_somebody"),
        ),
        sa.CheckConstraint(
            "decided_as IS NULL OR decided_as <> asked_as",
            name=op.f("ck_approvals_by_another_person"),
        ),
    )
