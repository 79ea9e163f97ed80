"""What the headers of an NServiceBus message tell beside its failure: who sent it, and in which talk.

The names of the headers, and what follows from them, are ServiceControl's (MessageViewFactory,
EndpointDetailsParser). Messages of others have none of these headers; nothing is made up then.
"""

from collections.abc import Mapping

from retrier.domain.dialects.nservicebus import EXCEPTION, guid_of
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.text import clean
from retrier.domain.values import dataclass

_SENDER = "NServiceBus.OriginatingEndpoint"
_SENDING_MACHINE = "NServiceBus.OriginatingMachine"
_SENDING_HOST_ID = "$.diagnostics.originating.hostid"
_SOURCE = f"{EXCEPTION}Source"
_CONVERSATION = "NServiceBus.ConversationId"
_INTENT = "NServiceBus.MessageIntent"
_CONTROL = "NServiceBus.ControlMessage"
_EDIT_OF = "ServiceControl.EditOf"

USUAL_INTENT = "send"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The endpoint that sent a message, and the machine on which it ran."""

    name: str
    host: str | None = None
    host_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFacts:
    """What the headers say; None for what they do not say.

    `source` is the assembly that threw the exception. `edit_of` is the message of which this one is
    an edited version, as ServiceControl wrote it.
    """

    sender: Sender | None = None
    source: str | None = None
    conversation_id: str | None = None
    intent: str = USUAL_INTENT
    is_system: bool = False
    edit_of: str | None = None


def read_facts(headers: Mapping[str, object]) -> HeaderFacts:
    """Return what the headers of a message say."""
    return HeaderFacts(
        sender=_sender(headers),
        source=_text(headers, _SOURCE),
        conversation_id=_text(headers, _CONVERSATION),
        intent=(_text(headers, _INTENT) or USUAL_INTENT).lower(),
        is_system=(_text(headers, _CONTROL) or "").lower() == "true",
        edit_of=_text(headers, _EDIT_OF),
    )


def status_of_view(status: FailedMessageStatus, attempts: int) -> str:
    """Return the status in a message view: of another set than that in lists of failed messages."""
    match status:
        case FailedMessageStatus.UNRESOLVED:
            return "failed" if attempts == 1 else "repeatedFailure"
        case FailedMessageStatus.RETRY_ISSUED:
            return "retryIssued"
        case FailedMessageStatus.ARCHIVED:
            return "archivedFailure"
        case FailedMessageStatus.RESOLVED:
            return "resolvedSuccessfully"


def _sender(headers: Mapping[str, object]) -> Sender | None:
    name = _text(headers, _SENDER)
    if name is None:
        return None
    host_id = guid_of(_text(headers, _SENDING_HOST_ID))
    return Sender(name=name, host=_text(headers, _SENDING_MACHINE), host_id=host_id)


def _text(headers: Mapping[str, object], name: str) -> str | None:
    value = headers.get(name)
    return (clean(value) or None) if isinstance(value, str) else None
