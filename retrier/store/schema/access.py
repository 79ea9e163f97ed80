"""Tables about who may ask: tokens, sessions of browsers, log-ins under way, approvals."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, String, Table, Text

from retrier.domain.access import AccessRole
from retrier.store.schema.types import Id, Json, Number, UtcTime, metadata, one_of

access_tokens = Table(
    "access_tokens",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("sha256", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    # Patterns of the queues on whose messages it may act; NULL is all.
    Column("queues", Json),
    Column("expires_at", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Column("created_by", Text, nullable=False),
    # A revoked one is kept, so that its name is not given to another one, and the log stays clear.
    Column("revoked_at", UtcTime),
    Column("revoked_by", Text),
    one_of("role", AccessRole),
    CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revoked_by_somebody"),
)
"""Tokens for programs. Of the token itself only its hash is kept."""

browser_sessions = Table(
    "browser_sessions",
    metadata,
    # The hash of what the browser's cookie holds.
    Column("sha256", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    # What the provider calls this person, the same whatever name is shown.
    Column("subject", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("queues", Json),
    Column("created_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False),
    one_of("role", AccessRole),
)
"""Who is logged in with a browser. What is over is deleted."""

Index("ix_browser_sessions_subject", browser_sessions.c.subject)

login_attempts = Table(
    "login_attempts",
    metadata,
    # The hash of the state that goes to the provider and comes back.
    Column("sha256", String(64), primary_key=True),
    Column("nonce", Text, nullable=False),
    Column("verifier", Text, nullable=False),
    # The page that was asked for.
    Column("back", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)
"""Log-ins that a browser was sent away for. Each is used once, by whichever process it comes back to."""

approvals = Table(
    "approvals",
    metadata,
    Column(
        "operation_id",
        Id,
        ForeignKey("retry_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    # What was counted when it was asked for: who approves something else is told.
    Column("plan_hash", String(64), nullable=False),
    Column("total", Number, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("asked_as", Text, nullable=False),
    Column("asked_at", UtcTime, nullable=False),
    Column("lapses_at", UtcTime, nullable=False),
    Column("state", String(16), nullable=False),
    Column("decided_at", UtcTime),
    Column("decided_by", Text),
    Column("decided_as", Text),
    one_of("state", ("asked", "approved", "refused", "lapsed")),
    CheckConstraint("(state = 'asked') = (decided_at IS NULL)", name="decided_when_over"),
    CheckConstraint("(decided_by IS NULL) = (decided_as IS NULL)", name="decided_by_somebody"),
    CheckConstraint("state <> 'approved' OR decided_as IS NOT NULL", name="approved_by_somebody"),
    CheckConstraint("decided_as IS NULL OR decided_as <> asked_as", name="by_another_person"),
)
"""Operations that wait, or waited, for a second person. `asked_as` and `decided_as` tell people apart."""
