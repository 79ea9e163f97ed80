"""The categories and type names under which ServiceControl's clients know what happens.

ServicePulse reads the category for its icon and for where a click leads.
"""

from collections.abc import Mapping
from types import MappingProxyType

MESSAGES = "MessageFailures"
_RECOVERABILITY = "Recoverability"
_REDIRECTS = "MessageRedirects"

_TYPES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "message_archived": (MESSAGES, "FailedMessageArchived"),
        "message_unarchived": (MESSAGES, "FailedMessageUnArchived"),
        "message_resolved": (MESSAGES, "MessageFailureResolvedManually"),
        "messages_archived": (_RECOVERABILITY, "FailedMessageGroupBatchArchived"),
        "messages_unarchived": (_RECOVERABILITY, "FailedMessageGroupBatchUnarchived"),
        "messages_resolved": (_RECOVERABILITY, "MessageFailureResolvedManually"),
        "archive_completed": (_RECOVERABILITY, "FailedMessageGroupArchived"),
        "unarchive_completed": (_RECOVERABILITY, "FailedMessageGroupUnarchived"),
        "retry_asked": (_RECOVERABILITY, "MessagesSubmittedForRetry"),
        "retry_returned": (_RECOVERABILITY, "MessagesSubmittedForRetryFailed"),
        "redirect_created": (_REDIRECTS, "MessageRedirectCreated"),
        "redirect_changed": (_REDIRECTS, "MessageRedirectChanged"),
        "redirect_deleted": (_REDIRECTS, "MessageRedirectRemoved"),
    }
)
"""Of the kinds that ServiceControl has, too: its category and its name of the type."""


def type_of(kind: str, *, is_of_message: bool) -> tuple[str, str]:
    """Return category and type; what only Retrier knows has a name made of its kind."""
    own = "".join(word.capitalize() for word in kind.split("_"))
    # A click on an event of this category opens its message.
    category, name = _TYPES.get(kind, (_RECOVERABILITY, own))
    return (MESSAGES, name) if is_of_message else (category, name)
