"""Copies in the staging queue, as a test looks at them and as a stranger might put them there."""

from collections.abc import Callable

from retrier.domain import headers
from retrier.domain.wire import Delivery, Edit, Outgoing
from tests.support.bench import STAGING, Bench
from tests.support.factories import raw_properties


def is_marker(message: Outgoing) -> bool:
    """Say whether this is an end marker."""
    return headers.END_MARKER.encode() in message.raw


def is_copy(message: Outgoing) -> bool:
    """Say whether this is a copy of a failed message on its way to the staging queue."""
    return message.queue == STAGING and headers.TARGET_ADDRESS.encode() in message.raw


def of_message(unique_message_id: str, queue: str) -> Callable[[Outgoing], bool]:
    """Match what goes to one queue for one message."""
    mark = unique_message_id.encode()
    return lambda message: message.queue == queue and mark in message.raw


def put_again(bench: Bench, copy: Delivery, **stamps: str) -> None:
    """Put a copy into the staging queue once more, with other stamps or the same."""
    names = {
        "staging_id": headers.STAGING_ID,
        "installation_id": headers.INSTALLATION_ID,
        "target": headers.TARGET_ADDRESS,
    }
    edit = Edit(set_headers={names[name]: value for name, value in stamps.items()})
    bench.transport.broker.put(STAGING, bench.transport.codec.edit(copy.raw, edit))


def put_foreign(bench: Bench, **extra: str) -> None:
    """Put something into the staging queue that is no copy, or has these headers alone."""
    bench.transport.broker.put(STAGING, raw_properties(extra), b"not ours")
