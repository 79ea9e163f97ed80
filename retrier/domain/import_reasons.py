"""Reasons for failed imports that somebody goes by later, and the kinds of them."""

from enum import StrEnum

from retrier.domain.headers import UNIQUE_MESSAGE_ID

_CONFIRMS = "it confirms a retry"
NO_ID = f"{_CONFIRMS}, but {UNIQUE_MESSAGE_ID} is no unique id"
UNKNOWN_MESSAGE = f"{_CONFIRMS} of a message that is not known here"
IDLE = f"{_CONFIRMS}, but none of that message is under way; it has a body, so it is kept"

UNKNOWN_COPY = "it has the stamps of a copy of ours and no body, but its staging id is not known"
UNREADABLE = "its properties cannot be read"
REFUSED = "the database refuses it"
UNFORESEEN = "unforeseen"

NO_CONTENT = frozenset({b"", b"{}"})
"""What a client writes as the body of a message that has none (Kombu: an empty JSON object)."""


class Kind(StrEnum):
    """What a failed import is, as far as its reason says.

    NAMELESS      it does not say where it failed.
    CONFIRMATION  it confirms a retry of which nothing is known.
    CLOSED        no setting makes more of it.
    """

    NAMELESS = "nameless"
    CONFIRMATION = "confirmation"
    CLOSED = "closed"


def kind_of(reason: str) -> Kind:
    """Return the kind of a failed import that is kept for this reason."""
    if reason.startswith((NO_ID, UNKNOWN_MESSAGE)):
        return Kind.CONFIRMATION
    closed = reason.startswith((UNREADABLE, REFUSED, UNFORESEEN, UNKNOWN_COPY, IDLE))
    return Kind.CLOSED if closed else Kind.NAMELESS
