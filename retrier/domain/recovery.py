"""A recovery: a restored database may tell of retries that were on their way, and ended since."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from retrier.domain.values import dataclass

SLACK = timedelta(hours=1)
"""Retries that were sent so long before may have failed again after the time of the backup."""


class RecoveryRefusal(StrEnum):
    """Why a recovery is not begun, or nothing is sent again."""

    NOT_YET = "The time lies in the future, by the database's clock: nothing was sent since."
    NONE = "No recovery is under way."


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """While it lasts nothing is presumed. `since` is the time of the backup, as a person says."""

    since: datetime
    begun_at: datetime
    begun_by: str

    @property
    def sent_from(self) -> datetime:
        """The first time of sending of what was on its way."""
        first = datetime.min.replace(tzinfo=UTC)
        return self.since - SLACK if self.since > first + SLACK else first
