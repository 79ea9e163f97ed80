"""Makes out a copy among messages that merely carry its stamps."""

from dataclasses import replace

from retrier.domain.copies import PROBE_BODY
from retrier.domain.failed_message import Judged, OwnCopy, Stamped
from retrier.domain.headers import INSTALLATION_ID, STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.identity import is_guid
from retrier.domain.text import clean
from retrier.ingestion.arrival import Arrival

UNKNOWN = "it has the stamps of a copy of ours and no body, but its staging id is not known"


def may_be_copy(arrival: Arrival) -> bool:
    """Say whether it looks like a copy, of whichever installation, or like our probe.

    A copy has no body: what has one is somebody's message, and keeps it.
    """
    installation = arrival.properties.text(INSTALLATION_ID)
    return (
        arrival.delivery.body in (b"", PROBE_BODY)
        and installation is not None
        and is_guid(installation)
    )


def read_stamped(arrival: Arrival, otherwise: Judged) -> Stamped:
    """Return what a message that may be a copy is, in each case; `otherwise` is without stamps."""
    properties = arrival.properties
    installation = properties.text(INSTALLATION_ID) or ""
    staging_id = clean(properties.text(STAGING_ID) or "")
    unique_id = properties.text(UNIQUE_MESSAGE_ID)
    copy = OwnCopy(
        staging_id=staging_id,
        unique_message_id=clean(unique_id) if unique_id else None,
        error_queue=arrival.delivery.queue,
    )
    empty = not arrival.delivery.body
    anothers = empty and is_guid(staging_id)
    return Stamped(
        installation_id=installation,
        staging_id=staging_id,
        if_ours=copy,
        if_unknown=arrival.as_import(UNKNOWN) if empty else otherwise,
        if_anothers=replace(copy, of_another=installation) if anothers else otherwise,
    )
