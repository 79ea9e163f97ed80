"""The copies of a message that are published: staged, sent back, for the log queue; and notices."""

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from retrier.domain import headers
from retrier.domain.dialects import ENVELOPES, strips, unwrap
from retrier.domain.headers import is_among
from retrier.domain.retry_batch import ClaimedMessage, StoredOriginal
from retrier.domain.values import dataclass
from retrier.domain.wire import Edit, Outgoing, PropertyCodec, UnreadableProperties, header_text

_PERSISTENT: Mapping[str, int | str] = MappingProxyType({"delivery_mode": 2})
_NOTHING: Mapping[str, int | str] = MappingProxyType({})
_LONGEST_QUEUE_NAME = 255
"""Bytes: AMQP's short string."""
_MOST_DIGITS = 18
_LARGEST_INT = 2**63
_ENVELOPES = frozenset(each.name for each in ENVELOPES)
_USER_ID = frozenset({"user_id"})
_EXPIRATION = frozenset({"expiration"})
_STAMPS = headers.STAGING_ONLY | {headers.UNIQUE_MESSAGE_ID, headers.RETRY_ID}
# A retry leaves these out. CC and BCC would copy it to other queues; the counters are the broker's.
# A message has stamps if a broker policy brought a copy of ours to an error queue.
_UNWANTED = headers.FAN_OUT | headers.BROKER_COUNTERS | headers.STAGING_ONLY
PROBE_BODY = b"probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """What all copies of one staging attempt have in common."""

    staging_id: str
    installation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCopy:
    """The stamps of a copy: which message it stands for, and where its retry goes.

    `number` is 0 if no message is named: in an end marker, and in a copy that was staged by a
    version before the first release. `size` counts the bytes of the message's properties and
    body. `end_marker` is None for a copy of a message.
    """

    staging_id: str
    installation_id: str | None
    number: int
    unique_message_id: str
    retry_id: str
    target: str
    size: int
    end_marker: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingTerms:
    """How a message is sent back, beside what it is itself.

    `own_user` is ours at the broker; `leave_out` are patterns of headers that it goes without.
    """

    acknowledgement_queue: str
    own_user: str | None
    keep_transient: bool = False
    leave_out: tuple[str, ...] = ()


_ANY_ID = "00000000-0000-0000-0000-000000000000"
_ANY_COPY = StagedCopy(
    staging_id=_ANY_ID,
    installation_id=None,
    number=0,
    unique_message_id=_ANY_ID,
    retry_id=_ANY_ID,
    target="",
    size=0,
    end_marker=None,
)

NO_DESTINATION = (
    "no destination is known: the failure names no queue. Name one for the retry, redirect the error "
    "queue on which it was found, or name its destination in the settings"
)


def make_staged(codec: PropertyCodec, message: ClaimedMessage, stamps: Stamps) -> bytes:
    """Return the properties of the copy for the staging queue: persistent, and nothing but stamps.

    RabbitMQ 4 sorts the headers of a message and drops all but the first of one name. The headers
    of the failed message stay in the store, so it cannot change those (decision 0028).
    """
    stamped = {
        headers.STAGING_ID: stamps.staging_id,
        headers.INSTALLATION_ID: stamps.installation_id,
        headers.NUMBER: str(message.number),
        headers.UNIQUE_MESSAGE_ID: message.unique_message_id,
        headers.RETRY_ID: message.retry_id,
        headers.TARGET_ADDRESS: message.destination,
        headers.SIZE: str(message.size),
    }
    return codec.edit(codec.empty, Edit(set_headers=stamped, set_fields=_PERSISTENT))


def make_forwarded(
    codec: PropertyCodec, original: StoredOriginal, copy: StagedCopy, terms: SendingTerms
) -> bytes:
    """Return the properties a message is sent back with: as it failed, changed for the retry.

    Removed are failure headers, CC and BCC (they copy it to other queues), the expiration, a
    user_id other than `own_user` (the broker would refuse it), and what the terms leave out. It is
    persistent, unless `keep_transient` leaves that as it was (decision 0058). Raises
    UnreadableProperties.
    """
    retry = {
        headers.RETRY_ID: copy.retry_id,
        headers.ACKNOWLEDGEMENT_QUEUE: terms.acknowledgement_queue,
    }
    if original.completed_steps is not None:
        retry[headers.COMPLETED_STEPS] = original.completed_steps
    # An edited version is another message: when it fails, its failure must not be taken for one of
    # the message that it was made of.
    names = headers.EDIT_OF if original.edited else headers.UNIQUE_MESSAGE_ID
    retry[names] = copy.unique_message_id
    edit = Edit(
        drop_headers=_left_out(
            original.dialect, (*terms.leave_out, *original.drop_headers), _plain_names(codec)
        ),
        set_headers=retry,
        drop_fields=_fields_left_out(codec, original.raw, terms.own_user),
        set_fields=_NOTHING if terms.keep_transient else _PERSISTENT,
    )
    return codec.edit(original.raw, edit)


def why_unsendable(
    codec: PropertyCodec, original: StoredOriginal, terms: SendingTerms
) -> str | None:
    """Say why the broker would never take a retry of a message; else None. Ids are as long as any.

    Raises UnreadableProperties.
    """
    forwarded = make_forwarded(codec, original, _ANY_COPY, terms)
    return codec.why_too_large(forwarded, original.body)


def without_envelope(codec: PropertyCodec, original: StoredOriginal) -> StoredOriginal:
    """Return what an error envelope holds: that goes back. Anything else is returned as it is.

    What stood in headers as a table or a list goes back as JSON: nothing tells what it had been.
    Raises UnreadableProperties.
    """
    if original.edited or original.dialect not in _ENVELOPES:
        return original
    inside = unwrap(original.dialect, codec.read(original.raw), original.body)
    if inside is None:
        return original
    if inside.keeps_properties:
        return replace(original, body=inside.body)
    headers_inside = {name: _plain(value) for name, value in inside.headers.items()}
    edit = Edit(set_headers=headers_inside, set_fields=inside.fields)
    return replace(original, raw=codec.edit(codec.empty, edit), body=inside.body)


def _plain(value: object) -> str | int:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case int() if abs(value) < _LARGEST_INT:
            return value
        case _:
            return json.dumps(value)


def as_it_came(
    codec: PropertyCodec, raw: bytes, own_user: str | None, *, keep_transient: bool = False
) -> bytes:
    """Return the properties to send an import with: byte for byte those it came with.

    Left out is only what would bring copies of it to other queues (CC, BCC), or have the broker
    refuse it (user_id of somebody else). It is persistent unless `keep_transient`: once it is
    sent, it is nowhere else. Bytes that cannot be read are left as they are.
    """
    try:
        properties = codec.read(raw)
    except UnreadableProperties:
        return raw
    is_foreign = properties.fields.get("user_id") not in (None, own_user)
    lasts = keep_transient or properties.fields.get("delivery_mode") == _PERSISTENT["delivery_mode"]
    fan_out = headers.FAN_OUT if codec.of_rabbitmq else frozenset()
    if lasts and not is_foreign and fan_out.isdisjoint(properties.headers):
        return raw
    edit = Edit(
        drop_headers=fan_out.__contains__,
        drop_fields=_USER_ID if is_foreign else frozenset(),
        set_fields=_NOTHING if keep_transient else _PERSISTENT,
    )
    return codec.edit(raw, edit)


def make_logged(
    codec: PropertyCodec, raw: bytes, unique_message_id: str, *, own_user: str | None
) -> bytes:
    """Return the properties of the copy for the log queue: as they came, persistent, with the id.

    Removed is only what would keep the copy from being there, once: CC and BCC (they copy it to
    other queues), the expiration, and a user_id other than `own_user` (the broker would refuse
    it). Failure headers stay. Raises UnreadableProperties.
    """
    edit = Edit(
        drop_headers=_fans_out if codec.of_rabbitmq else _keeps_all,
        set_headers={headers.LOGGED_ID: unique_message_id},
        drop_fields=_fields_left_out(codec, raw, own_user),
        set_fields=_PERSISTENT,
    )
    return codec.edit(raw, edit)


def make_end_marker(codec: PropertyCodec, stamps: Stamps, nonce: str) -> bytes:
    """Return the properties of an end marker: no copy of its batch lies behind it in the queue."""
    marker = {
        headers.STAGING_ID: stamps.staging_id,
        headers.INSTALLATION_ID: stamps.installation_id,
        headers.END_MARKER: nonce,
    }
    return codec.edit(codec.empty, Edit(set_headers=marker, set_fields=_PERSISTENT))


def make_probe(codec: PropertyCodec, stamps: Stamps, staging_queue: str) -> Outgoing:
    """Return a transient message that stands for no failed message; no batch has its staging id.

    A broker under an alarm stops reading after the header of the first message. It would confirm
    a probe without a body in spite of the alarm, so the probe has one (decision 0020).
    """
    probe = {
        headers.STAGING_ID: stamps.staging_id,
        headers.INSTALLATION_ID: stamps.installation_id,
    }
    raw = codec.edit(codec.empty, Edit(set_headers=probe))
    return Outgoing(queue=staging_queue, raw=raw, body=PROBE_BODY, repeatable=True)


def read_staged(codec: PropertyCodec, raw: bytes) -> StagedCopy | None:
    """Return the stamps; None without a staging id or if the properties cannot be read."""
    try:
        stamps = codec.read_headers(raw, _STAMPS)
    except UnreadableProperties:
        return None
    staging_id = header_text(stamps, headers.STAGING_ID)
    return None if staging_id is None else _read_stamps(staging_id, stamps)


def why_not_sendable(destination: str, closed_to_retries: Container[str]) -> str | None:
    """Say why a retry may not be sent there; None when it may.

    A retry to an error queue would be ingested at once; one to the staging queue would be dropped.
    """
    if not destination:
        return NO_DESTINATION
    if destination in closed_to_retries:
        return f"the destination {destination} is an error queue or staging queue of Retrier's own"
    if len(destination.encode()) > _LONGEST_QUEUE_NAME:
        return f"the destination is longer than {_LONGEST_QUEUE_NAME} bytes: no queue can have it"
    return None


def _fields_left_out(codec: PropertyCodec, raw: bytes, own_user: str | None) -> frozenset[str]:
    user_id = codec.read_fields(raw, _USER_ID).get("user_id")
    is_foreign = user_id not in (None, own_user)
    return _EXPIRATION | _USER_ID if is_foreign else _EXPIRATION


def _fans_out(name: str) -> bool:
    return name in headers.FAN_OUT


def _keeps_all(_name: str) -> bool:
    return False


def _plain_names(codec: PropertyCodec) -> tuple[str, ...]:
    """Return patterns of names that are RabbitMQ's, and on this broker a sender's like any other."""
    return () if codec.of_rabbitmq else headers.OF_RABBITMQ


@lru_cache(maxsize=256)
def _left_out(
    dialect: str, patterns: tuple[str, ...], plain: tuple[str, ...]
) -> Callable[[str], bool]:
    """Return the `drop_headers` of these, always the same object: codecs cache by it."""

    def unwanted(name: str) -> bool:
        return (strips(dialect, name) or name in _UNWANTED) and not is_among(name, plain)

    return lambda name: unwanted(name) or bool(patterns and is_among(name, patterns))


def _number(text: str) -> int:
    """Read the number in a stamp; 0 if there is none, for anybody can write such a header."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _read_stamps(staging_id: str, stamps: Mapping[str, object]) -> StagedCopy:
    return StagedCopy(
        staging_id=staging_id,
        installation_id=header_text(stamps, headers.INSTALLATION_ID),
        number=_number(header_text(stamps, headers.NUMBER) or ""),
        unique_message_id=header_text(stamps, headers.UNIQUE_MESSAGE_ID) or "",
        retry_id=header_text(stamps, headers.RETRY_ID) or "",
        target=header_text(stamps, headers.TARGET_ADDRESS) or "",
        size=_number(header_text(stamps, headers.SIZE) or ""),
        end_marker=header_text(stamps, headers.END_MARKER),
    )


NOTICE_ID = "notice_id"
"""The member of a notice that names it: the same each time the notice is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadMessage:
    """A message that has become dead in this transaction, and the failure that it shows."""

    number: int
    attempt_id: int


def make_notice_properties(codec: PropertyCodec, notice: Mapping[str, object]) -> bytes:
    """Return the properties of a notice: persistent, JSON, with its id as a header."""
    stamped = {headers.NOTICE_ID: str(notice[NOTICE_ID])}
    fields: dict[str, int | str] = {"delivery_mode": 2, "content_type": "application/json"}
    edit = Edit(set_headers=stamped, set_fields=fields)
    return codec.edit(codec.empty, edit)


def make_notice_body(notice: Mapping[str, object], exception_message: str | None) -> bytes:
    """Return the body: what was written down, with the message of the exception.

    That one is read from the stored failure, which never changes: the body is the same each time.
    """
    exception = {"exception_type": notice.get("exception_type"), "message": exception_message}
    told = {name: value for name, value in notice.items() if name != "exception_type"}
    whole = {**told, "exception": {name: value for name, value in exception.items() if value}}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
