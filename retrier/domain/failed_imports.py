"""Failed imports: where one stands, what a person may do with it, and what came of sending it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

ON_ITS_WAY = timedelta(seconds=60)
"""So long after its stamp an import may still be handed to the broker.

Whoever sends gives up long before (transport.sender), so a stamp that is older is of a process that
died, or that was told nothing: nobody sends it any more, and a person may decide.
"""


class ImportState(StrEnum):
    """Where a failed import stands.

    KEPT      it waits for a person.
    IN_DOUBT  it was stamped to be sent to a queue and the broker's answer is not recorded: it may
              have arrived.
    """

    KEPT = "kept"
    IN_DOUBT = "in_doubt"


class ImportRefusal(StrEnum):
    """Why an act on a failed import is refused."""

    UNKNOWN = "no failed import has this id"
    ON_ITS_WAY = (
        "it is being sent to a queue at this moment; if the process that did so has died, it can be "
        "sent again, or deleted, a minute after it began"
    )
    IN_DOUBT = (
        "it may have been sent to a queue already; if it did not arrive there, send it with `again`, "
        "and if it did, delete it"
    )
    ONLY_CONFIRMS = (
        "it has no body and only confirms a retry that nobody waits for, so no consumer can handle "
        "it: delete it, or send it with `confirmation` all the same"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A send of a failed import whose outcome is not recorded: the stamp."""

    send_id: str
    to: str
    since: datetime
    requested_by: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The broker has taken the import over."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The broker answered, and did not take it: it is nowhere but here."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotTried:
    """Nothing of it was handed to the broker."""

    reason: str


@dataclass(frozen=True, slots=True)
class Doubtful:
    """It was handed to the broker, whose answer did not come: it may have arrived."""

    reason: str


SendOutcome = Sent | NotTaken | NotTried | Doubtful


def why_not_read_again(send: Send | None, now: datetime) -> ImportRefusal | None:
    """Return why an import may not be read again; None if it may.

    One that may have arrived on a queue would be a failed message as well, and be retried: it
    would be handled twice.
    """
    return why_not_send(send, now, again=False)


def why_not_send(send: Send | None, now: datetime, *, again: bool) -> ImportRefusal | None:
    """Return why an import may not be sent; None if it may. `again`: although it is in doubt."""
    if send is None:
        return None
    if is_on_its_way(send, now):
        return ImportRefusal.ON_ITS_WAY
    return None if again else ImportRefusal.IN_DOUBT


def why_not_delete(send: Send | None, now: datetime) -> ImportRefusal | None:
    """Return why an import may not be deleted; None if it may.

    One in doubt may: a person has looked whether it arrived.
    """
    return why_not_send(send, now, again=True)


def is_on_its_way(send: Send, now: datetime) -> bool:
    """Say whether somebody may still be about to hand it to the broker."""
    return now - send.since < ON_ITS_WAY
