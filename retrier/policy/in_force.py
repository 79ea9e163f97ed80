"""The set of policies in force, and where it comes from."""

from dataclasses import dataclass
from datetime import datetime

from retrier.policy.policy_set import PolicySet


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The set by which failures are judged.

    `is_configured` is false if there is no section `policies`. `problems` are those of a newer file
    that was not taken.
    """

    policies: PolicySet
    is_configured: bool
    loaded_at: datetime
    file_time: datetime | None = None
    problems: tuple[str, ...] = ()
