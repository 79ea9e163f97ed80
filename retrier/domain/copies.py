"""The staged copy of a failed message, and the message that is forwarded in the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from retrier.domain import headers
from retrier.domain.dialects import strips
from retrier.domain.retry_batch import ClaimedMessage
from retrier.domain.wire import Edit, Outgoing, PropertyCodec, UnreadableProperties, header_text

_RESTORED_FIELDS = ("delivery_mode", "priority")
_LOOKED_AT = frozenset({*_RESTORED_FIELDS, "user_id"})
_DROPPED_FIELDS = frozenset({"expiration", "priority"})
_PERSISTENT = {"delivery_mode": 2}
_LONGEST_QUEUE_NAME = 255
"""Bytes: AMQP's short string."""
_LARGEST_OCTET = 255
_MOST_DIGITS = 18
_STAMPS = headers.STAGING_ONLY | {headers.UNIQUE_MESSAGE_ID}
_GONE = headers.STAGING_ONLY | headers.BROKER_COUNTERS
PROBE_BODY = b"probe"
# Stamps that came with the message are somebody else's: an end marker among them would have
# the copy dropped, each time anew.
_UNWANTED = headers.FAN_OUT | headers.STAGING_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """What all copies of one staging attempt have in common."""

    staging_id: str
    installation_id: str
    own_user: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCopy:
    """What the stamps of a copy say. `end_marker` is None for a copy of a message."""

    staging_id: str
    installation_id: str | None
    unique_message_id: str
    target: str
    body_size: int
    end_marker: str | None
    noted: str
    """What has to be restored on the forward."""


def make_staged(
    codec: PropertyCodec, message: ClaimedMessage, stamps: Stamps, acknowledgement_queue: str
) -> bytes:
    """Return the properties of the copy for the staging queue.

    Error headers are stripped; what would copy it elsewhere (CC, BCC), expire it, reorder it
    (priority) or have it refused (user_id of somebody else) is left out; it is persistent. What
    has to be restored on the forward is noted in a stamp.
    """
    fields = codec.read_fields(message.raw, _LOOKED_AT)
    retry = {
        headers.RETRY_ID: message.retry_id,
        headers.ACKNOWLEDGEMENT_QUEUE: acknowledgement_queue,
    }
    if message.completed_steps is not None:
        retry[headers.COMPLETED_STEPS] = message.completed_steps
    stamped = {
        headers.UNIQUE_MESSAGE_ID: message.unique_message_id,
        headers.STAGING_ID: stamps.staging_id,
        headers.INSTALLATION_ID: stamps.installation_id,
        headers.TARGET_ADDRESS: message.destination,
        headers.BODY_SIZE: str(message.body_size),
        headers.ORIGINAL_FIELDS: _note_fields(fields),
    }
    is_foreign = fields.get("user_id") not in (None, stamps.own_user)
    edit = Edit(
        drop_headers=_left_out(message.dialect),
        set_headers=retry,
        stamps=stamped,
        drop_fields=_DROPPED_FIELDS | {"user_id"} if is_foreign else _DROPPED_FIELDS,
        set_fields=_PERSISTENT,
    )
    return codec.edit(message.raw, edit)


def make_forwarded(codec: PropertyCodec, raw: bytes, noted: str) -> bytes:
    """Return the properties a staged copy is forwarded with: its stamps gone, fields restored."""
    original = _read_noted(noted)
    return codec.cut_stamps(raw, original) or codec.edit(raw, _restoring(original))


def make_end_marker(codec: PropertyCodec, stamps: Stamps, nonce: str) -> bytes:
    """Return the properties of the message behind which no copy of this batch can lie."""
    marker = {
        headers.STAGING_ID: stamps.staging_id,
        headers.INSTALLATION_ID: stamps.installation_id,
        headers.END_MARKER: nonce,
    }
    return codec.edit(codec.empty, Edit(set_headers=marker, set_fields=_PERSISTENT))


def make_probe(codec: PropertyCodec, stamps: Stamps, staging_queue: str) -> Outgoing:
    """Return a transient copy of nothing, under a staging id that nobody asks for.

    It has a body, because a broker under an alarm stops reading behind the header of the first
    message: one without a body would be confirmed all the same.
    """
    probe = {
        headers.STAGING_ID: stamps.staging_id,
        headers.INSTALLATION_ID: stamps.installation_id,
    }
    raw = codec.edit(codec.empty, Edit(set_headers=probe))
    return Outgoing(queue=staging_queue, raw=raw, body=PROBE_BODY)


def read_staged(codec: PropertyCodec, raw: bytes) -> StagedCopy | None:
    """Return what the stamps say; None for a message that is no copy of anybody's."""
    try:
        stamps = codec.read_stamps(raw) or codec.read_headers(raw, _STAMPS)
    except UnreadableProperties:
        return None
    staging_id = header_text(stamps, headers.STAGING_ID)
    return None if staging_id is None else _read_stamps(staging_id, stamps)


def why_not_sendable(destination: str, closed_to_retries: frozenset[str]) -> str | None:
    """Say why a retry may not be sent there; None when it may.

    A retry to an ingested queue would come straight back, one to the staging queue be dropped.
    """
    if not destination:
        return "no destination: the failure headers name no queue"
    if destination in closed_to_retries:
        return f"the destination {destination} is an error queue or staging queue of Retrier's own"
    if len(destination.encode()) > _LONGEST_QUEUE_NAME:
        return f"the destination is longer than {_LONGEST_QUEUE_NAME} bytes: no queue can have it"
    return None


@lru_cache(maxsize=16)
def _left_out(dialect: str) -> Callable[[str], bool]:
    """Return what says of a header whether a copy leaves it out; the same for all copies."""
    return lambda name: strips(dialect, name) or name in _UNWANTED


def _restoring(original: Mapping[str, int]) -> Edit:
    return Edit(
        drop_headers=_GONE.__contains__,
        drop_fields=frozenset(_RESTORED_FIELDS) - frozenset(original),
        set_fields=original,
    )


def _note_fields(fields: Mapping[str, str | int]) -> str:
    return ";".join(f"{name}={fields[name]}" for name in _RESTORED_FIELDS if name in fields)


@lru_cache(maxsize=128)
def _read_noted(noted: str) -> Mapping[str, int]:
    pairs = (pair.partition("=") for pair in noted.split(";"))
    values = {name: _number(value) for name, _, value in pairs if name in _RESTORED_FIELDS}
    return {name: min(value, _LARGEST_OCTET) for name, value in values.items()}


def _number(text: str) -> int:
    """Read a stamp that anybody may have written; 0 for what is none of our numbers."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _read_stamps(staging_id: str, stamps: Mapping[str, object]) -> StagedCopy:
    return StagedCopy(
        staging_id=staging_id,
        installation_id=header_text(stamps, headers.INSTALLATION_ID),
        unique_message_id=header_text(stamps, headers.UNIQUE_MESSAGE_ID) or "",
        target=header_text(stamps, headers.TARGET_ADDRESS) or "",
        body_size=_number(header_text(stamps, headers.BODY_SIZE) or ""),
        end_marker=header_text(stamps, headers.END_MARKER),
        noted=header_text(stamps, headers.ORIGINAL_FIELDS) or "",
    )
