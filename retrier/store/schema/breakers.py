"""Tables about breakers: the state of each, and what every process has counted."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Integer,
    String,
    Table,
    Text,
    false,
    text,
)

from retrier.domain.breakers import BreakerState, Per
from retrier.store.schema.types import Id, Number, UtcTime, metadata, one_of

HANDS = (BreakerState.OPEN, BreakerState.CLOSED)
"""What a person may make of a breaker."""

breakers = Table(
    "breakers",
    metadata,
    Column("breaker_id", Number, primary_key=True, autoincrement=True),
    Column("breaker_key", Text, nullable=False, unique=True),
    Column("per", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("rule", Text),
    Column("grain_ms", Number),
    Column("last_outcomes", Integer),
    Column("state", String(16), nullable=False),
    Column("changed_at", UtcTime, nullable=False),
    Column("opened_at", UtcTime),
    Column("due_at", UtcTime),
    Column("cooldown_ms", Number, nullable=False, server_default=text("0")),
    Column("sent", Integer, nullable=False, server_default=text("0")),
    Column("failed", Integer, nullable=False, server_default=text("0")),
    Column("confirms", Boolean, nullable=False, server_default=false()),
    Column("trial_number", Number),
    Column("trial_retry_id", Id),
    Column("hand", String(16)),
    Column("hand_until", UtcTime),
    Column("hand_who", Text),
    Column("hand_why", Text),
    one_of("per", Per),
    one_of("state", BreakerState),
    one_of("hand", HANDS),
    CheckConstraint("(state = 'closed') = (opened_at IS NULL)", name="open_since"),
    CheckConstraint("state <> 'open' OR due_at IS NOT NULL", name="open_until_it_is_tried"),
    CheckConstraint("(trial_number IS NULL) = (trial_retry_id IS NULL)", name="one_trial"),
    CheckConstraint("trial_number IS NULL OR state = 'half_open'", name="tried_while_half_open"),
    CheckConstraint("(hand IS NULL) = (hand_until IS NULL)", name="by_hand_until"),
    # Claims name breakers without a foreign key: the id of a deleted one must not come again.
    sqlite_autoincrement=True,
)

breaker_counts = Table(
    "breaker_counts",
    metadata,
    Column("breaker_id", Number, primary_key=True, autoincrement=False),
    # Part of the time in which the counted retries were sent: never older than the last change.
    Column("since", UtcTime, primary_key=True),
    Column("counted_by", Id, primary_key=True),
    Column("sent", Integer, nullable=False),
    Column("returned", Integer, nullable=False),
    Column("came_back", Integer, nullable=False),
    Column("confirmed", Integer, nullable=False),
    # A letter for each outcome, in the order of arrival: c confirmed, f failed.
    Column("outcomes", Text, nullable=False),
    CheckConstraint(
        "sent >= 0 AND returned >= 0 AND came_back >= 0 AND confirmed >= 0", name="counted_up"
    ),
)
"""What became of retries. Each counter writes rows of its own: none waits for another."""
