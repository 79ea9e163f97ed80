"""The bodies of Dramatiq's messages: what its own retries write into them, and what we do."""

from collections.abc import Mapping
from typing import Any

from dramatiq import Message, get_encoder
from dramatiq.common import current_millis

from retrier.domain import headers

OPTION = "retrier"
"""The option of a message that carries the headers of a retry, and when it was sent first.

Dramatiq's own retries publish a new message without any AMQP header, but with all options.
"""

_OF_RETRIES = frozenset({"retries", "traceback", "requeue_timestamp"})
_KEPT = ("Retrier.", "ServiceControl.Retry.")


def begin_anew(message: Message[Any], found: Mapping[str, Any]) -> Message[Any]:
    """Return a message as it is to be handled; one that Retrier sends back begins anew.

    Its own retries count from 0, and `max_age` from now: else it would be skipped when it comes. The
    headers are there only when it comes, so its options carry them from now on.
    """
    if headers.RETRY_ID not in found and headers.UNIQUE_MESSAGE_ID not in found:
        return message
    for name in _OF_RETRIES:
        message.options.pop(name, None)
    kept = {name: str(value) for name, value in found.items() if name.startswith(_KEPT)}
    message.options[OPTION] = {"headers": kept, "sent": message.message_timestamp}
    return message.copy(message_timestamp=current_millis())


def find_carried(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the headers of the retry that a message is; none if it is no retry."""
    carried = options.get(OPTION)
    found = carried.get("headers") if isinstance(carried, dict) else None
    return found if isinstance(found, dict) else {}


def restore(body: bytes) -> bytes:
    """Return the body as it was before Dramatiq tried the message again and again.

    The encoder is the one that made it, so what comes out is what was first sent, byte for byte.
    """
    fields = get_encoder().decode(body)
    options = fields["options"]
    if not options.keys() & {*_OF_RETRIES, OPTION}:
        return body
    carried = options.get(OPTION)
    if isinstance(carried, dict) and "sent" in carried:
        fields["message_timestamp"] = carried["sent"]
    fields["options"] = {
        name: value for name, value in options.items() if name not in {*_OF_RETRIES, OPTION}
    }
    return get_encoder().encode(fields)


def count_runs(body: bytes) -> int:
    """Return how often the task was started, this time included."""
    retries = get_encoder().decode(body)["options"].get("retries", 0)
    return retries + 1 if isinstance(retries, int) else 1
