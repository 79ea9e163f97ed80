"""The properties of an SQS message: its attributes, and what SQS itself says of it.

Raw properties are a JSON object with up to four members. `attributes` are the sender's. `goes_back`
is what SQS keeps beside them and a retry has again: group and trace. `facts` are SQS's own, the
same at each delivery; `delivery` has those that change, and is no part of the canonical form.
"""

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from typing import Any
from uuid import uuid4

from retrier.domain.dialects.sqs import FACT, ONLY_SOURCE, RECEIVED, SENT, SOURCE, SOURCE_QUEUE
from retrier.domain.headers import RETRY_ID
from retrier.domain.values import dataclass
from retrier.domain.wire import (
    SETTABLE_TEXTS,
    Edit,
    NotOfItsType,
    Outgoing,
    Properties,
    UnreadableProperties,
)
from retrier.transport.sqs.address import name_beside

PACKED = "Retrier.Headers"
"""The attribute in which the retry headers travel together, as JSON, where they have no room."""
ENCODING = "Retrier.BodyEncoding"
"""The attribute that says how a body stands for bytes that SQS does not take."""
BASE64, EMPTY = "base64", "empty"
_STANDS_FOR_NOTHING = "-"
MOST_ATTRIBUTES = 10
MOST_OWN = 1
"""Attributes of the sender beside which each retry header still has one of its own."""
LARGEST = 1024 * 1024
"""Bytes of a message with its attributes, and of all messages of a request."""

GROUP, TRACE, DEDUPLICATION = "MessageGroupId", "AWSTraceHeader", "MessageDeduplicationId"
_GOES_BACK = (GROUP, TRACE)
_CHANGES = frozenset({RECEIVED, "ApproximateFirstReceiveTimestamp"})
_OURS = ("Retrier.", "ServiceControl.")
_REFUSED_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE_NAME = re.compile(
    r"(?!(?:aws|amazon)\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)", re.IGNORECASE
)
_STAMPED = (*_OURS, "NServiceBus.")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,38}(?:\.[0-9]{0,38})?|\.[0-9]{1,38})(?:[eE][+-]?[0-9]{1,3})?"
)
_INTEGER = re.compile(r"-?\d{1,18}")

Attribute = dict[str, str]
"""`DataType`, and either `StringValue` or `BinaryValue`, which is in base64."""


class NotSendable(ValueError):
    """SQS would not take the message; the text says why."""


class SqsPropertyCodec:
    """Reads and edits raw properties."""

    empty = b"{}"
    of_rabbitmq = False
    surely_fits: int | None = 0

    def why_too_large(self, raw: bytes, body: bytes) -> str | None:
        """See the seam: body and attributes share one limit. Other refusals of SQS are told, too."""
        try:
            make_entry(Outgoing(queue="", raw=raw, body=body), fifo=False)
        except NotSendable as error:
            return str(error)
        return None

    def read(self, raw: bytes) -> Properties:
        """Decode for reading. Raises UnreadableProperties.

        Headers are the attributes, and behind the prefix `SQS.` what SQS says of the message.
        """
        parts = _load(raw)
        attributes = parts.get("attributes", {})
        facts = {
            **parts.get("facts", {}),
            **parts.get("delivery", {}),
            **parts.get("goes_back", {}),
        }
        headers: dict[str, object] = {name: _value(each) for name, each in attributes.items()}
        headers |= {f"{FACT}{name}": value for name, value in facts.items()}
        fields: dict[str, str | int] = {
            name: found for name in SETTABLE_TEXTS if isinstance(found := headers.get(name), str)
        }
        if "MessageId" in facts:
            fields["message_id"] = str(facts["MessageId"])
        if str(facts.get(SENT, "")).isdecimal():
            fields["timestamp"] = int(facts[SENT]) // 1000
        return Properties(headers=headers, fields=fields)

    def read_what_can_be(self, raw: bytes) -> tuple[Properties, str | None]:
        """Decode all or nothing. Never raises."""
        try:
            return self.read(raw), None
        except UnreadableProperties as error:
            return Properties(headers={}, fields={}), str(error)

    def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
        """Return both. Raises UnreadableProperties."""
        return self.read(raw), self.canonical(raw)

    def read_fields(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, str | int]:
        """Decode these fields only. Raises UnreadableProperties."""
        fields = self.read(raw).fields
        return {name: fields[name] for name in wanted & fields.keys()}

    def read_headers(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, object]:
        """Decode these headers only. Raises UnreadableProperties."""
        headers = self.read(raw).headers
        return {name: headers[name] for name in wanted & headers.keys()}

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Return the properties with the edit applied.

        SQS has no properties beside attributes: a text field that is set is an attribute of its
        name, and a number is left out. Raises UnreadableProperties; NotOfItsType for what a Number
        cannot hold; ValueError for a field that cannot be set.
        """
        parts = _load(raw)
        before: dict[str, Attribute] = parts.get("attributes", {})
        attributes = {
            name: each
            for name, each in before.items()
            if not edit.drop_headers(name) and name not in edit.drop_fields & SETTABLE_TEXTS
        }
        for name, value in edit.set_fields.items():
            if name in SETTABLE_TEXTS and isinstance(value, str):
                attributes[name] = _attribute(value)
            elif name not in {"delivery_mode", "priority", "timestamp"}:
                raise ValueError(f"cannot set {name} to {value!r}")
        attributes |= {
            name: _as_before(name, value, before.get(name))
            for name, value in edit.set_headers.items()
        }
        kept = {
            part: {
                name: each
                for name, each in parts.get(part, {}).items()
                if not edit.drop_headers(f"{FACT}{name}")
            }
            for part in ("facts", "delivery")
        }
        return _dump({**parts, **kept, "attributes": attributes})

    def canonical(self, raw: bytes) -> bytes:
        """Return them without what changes from delivery to delivery. Raises UnreadableProperties."""
        parts = _load(raw)
        parts.pop("delivery", None)
        return _dump(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A received message taken apart."""

    raw: bytes
    body: bytes
    redelivered: bool


def read_message(
    message: Mapping[str, Any], own_arn: str = "", only_source: str | None = None
) -> Parcel:
    """Take a received message apart.

    `own_arn` is that of its queue, `only_source` the one queue that dead-letters to it.
    """
    attributes = {
        name: _as_stored(each) for name, each in message.get("MessageAttributes", {}).items()
    }
    packed = attributes.get(PACKED)
    unpacked = None if packed is None else _unpack(packed)
    if unpacked is not None:
        del attributes[PACKED]
        attributes |= unpacked
    system: dict[str, str] = dict(message.get("Attributes", {}))
    body = _decode(message["Body"], attributes)
    delivery = {name: system[name] for name in system if name in _CHANGES}
    if SOURCE in system:
        system[SOURCE_QUEUE] = name_beside(system[SOURCE], own_arn)
    if only_source is not None and SOURCE not in system:
        delivery[ONLY_SOURCE] = only_source
    parts = {
        "attributes": attributes,
        "goes_back": {name: system[name] for name in _GOES_BACK if name in system},
        "facts": {
            "MessageId": message["MessageId"],
            **{n: v for n, v in system.items() if n not in _CHANGES and n not in _GOES_BACK},
        },
        "delivery": delivery,
    }
    received = system.get(RECEIVED, "")
    return Parcel(
        raw=_dump(parts), body=body, redelivered=received.isdecimal() and int(received) > 1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message as it is sent: the parameters, without an id, and its size in bytes.

    `repeatable` is that of the message.
    """

    parameters: Mapping[str, Any]
    size: int
    repeatable: bool = False

    def why_not_arrived(self, answer: Mapping[str, Any]) -> str | None:
        """Return what SQS has stored otherwise than it was sent, by the MD5 of its answer; else None."""
        wanted = {
            "MD5OfMessageBody": md5_of(self.parameters["MessageBody"]),
            "MD5OfMessageAttributes": md5_of_attributes(self.parameters["MessageAttributes"]),
        }
        for name, digest in wanted.items():
            if digest is not None and answer.get(name) != digest:
                return f"{name} is {answer.get(name)}, and not {digest}"
        return None


def make_entry(message: Outgoing, *, fifo: bool) -> Entry:
    """Return a message as it is sent. Raises NotSendable, UnreadableProperties.

    To a FIFO queue its retry id says that it is the same when it is sent again. One that has no
    group is a group by itself.
    """
    parts = _load(message.raw)
    attributes: dict[str, Attribute] = dict(parts.get("attributes", {}))
    text, encoding = _encode(message.body)
    if encoding is not None:
        attributes[ENCODING] = _attribute(encoding)
    retry_id = attributes.get(RETRY_ID, {}).get("StringValue")
    attributes = {name: each for name, each in _pack(attributes).items() if _has_value(each)}
    _check(attributes)
    back = parts.get("goes_back", {})
    parameters: dict[str, Any] = {
        "MessageBody": text,
        "MessageAttributes": {name: _as_sent(each) for name, each in attributes.items()},
    }
    if fifo:
        unique = retry_id or str(uuid4())
        parameters[DEDUPLICATION] = unique
        parameters[GROUP] = back.get(GROUP) or unique
    elif back.get(GROUP):
        # A standard queue with groups is a fair queue: it keeps one group from delaying the others.
        parameters[GROUP] = back[GROUP]
    if TRACE in back:
        parameters["MessageSystemAttributes"] = {
            TRACE: {"DataType": "String", "StringValue": back[TRACE]}
        }
    size = len(text.encode()) + sum(_size(name, each) for name, each in attributes.items())
    if size > LARGEST:
        raise NotSendable(f"it has {size:,} bytes with its attributes, and SQS takes {LARGEST:,}")
    return Entry(parameters=parameters, size=size, repeatable=message.repeatable)


def md5_of(text: str) -> str:
    """Return the MD5 of a body, in hexadecimal digits."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the MD5 of attributes as SQS computes it (its developer guide says how); None of none."""
    if not attributes:
        return None
    digest = md5(usedforsecurity=False)
    for name, each in sorted(attributes.items()):
        binary = each.get("BinaryValue")
        value = each["StringValue"].encode() if binary is None else binary
        kind = b"\x01" if binary is None else b"\x02"
        for part, before in ((name.encode(), b""), (each["DataType"].encode(), b""), (value, kind)):
            digest.update(before + len(part).to_bytes(4) + part)
    return digest.hexdigest()


def _load(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadableProperties(f"they are not JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise UnreadableProperties("they are no JSON object of objects")
    for each in found.get("attributes", {}).values():
        if not isinstance(each, dict) or not isinstance(each.get("DataType"), str):
            raise UnreadableProperties("an attribute has no DataType")
    return found


def _dump(parts: Mapping[str, Any]) -> bytes:
    told = {name: each for name, each in parts.items() if each}
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def _value(attribute: Attribute) -> object:
    """Return the value of an attribute. A Number that is no integer of 64 bits stays a text."""
    if "BinaryValue" in attribute:
        try:
            return b64decode(attribute["BinaryValue"])
        except (NotBase64, ValueError):
            return attribute["BinaryValue"]
    text = attribute.get("StringValue", "")
    is_number = attribute["DataType"].partition(".")[0] == "Number"
    return int(text) if is_number and _INTEGER.fullmatch(text) else text


def _attribute(value: str | int) -> Attribute:
    kind = "Number" if isinstance(value, int) else "String"
    return {"DataType": kind, "StringValue": str(value)}


def _as_before(name: str, value: str | int, before: Attribute | None) -> Attribute:
    """Return an attribute of the type that it had, as `String.uuid`. Raises NotOfItsType.

    What we stamp has our types, whatever a sender has called so.
    """
    if before is None or "BinaryValue" in before or name.startswith(_STAMPED):
        return _attribute(value)
    if before["DataType"].partition(".")[0] == "Number" and not _NUMBER.fullmatch(str(value)):
        raise NotOfItsType(name)
    return {"DataType": before["DataType"], "StringValue": str(value)}


def _as_stored(attribute: Mapping[str, Any]) -> Attribute:
    binary = attribute.get("BinaryValue")
    if binary is not None:
        return {"DataType": attribute["DataType"], "BinaryValue": b64encode(binary).decode()}
    return {"DataType": attribute["DataType"], "StringValue": attribute.get("StringValue", "")}


def _as_sent(attribute: Attribute) -> Mapping[str, Any]:
    if "BinaryValue" in attribute:
        return {**attribute, "BinaryValue": b64decode(attribute["BinaryValue"])}
    return attribute


def _has_value(attribute: Attribute) -> bool:
    """Say whether SQS would take it: no attribute may be empty, so an empty header is left out."""
    return bool(attribute.get("StringValue") or attribute.get("BinaryValue"))


def _size(name: str, attribute: Attribute) -> int:
    value = attribute.get("StringValue")
    size = len(b64decode(attribute["BinaryValue"])) if value is None else len(value.encode())
    return len(name.encode()) + len(attribute["DataType"].encode()) + size


def _check(attributes: Mapping[str, Attribute]) -> None:
    """Raise NotSendable for what SQS refuses."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise NotSendable(
            f"it would have {len(attributes)} attributes, and SQS takes {MOST_ATTRIBUTES}: that many are "
            "its own, and the retry headers need one"
        )
    for name, each in attributes.items():
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise NotSendable(f"SQS takes no attribute that is called {name!r}")
        if _REFUSED_CHARACTER.search(each.get("StringValue", "")):
            raise NotSendable(f"the attribute {name} has a character that SQS does not take")


def _pack(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Put our headers into one attribute where fewer than nine are free."""
    ours = {
        name: _value(each)
        for name, each in attributes.items()
        if name.startswith(_OURS) and "StringValue" in each and _has_value(each)
    }
    if not ours or len(attributes) - len(ours) <= MOST_OWN:
        return dict(attributes)
    others = {name: each for name, each in attributes.items() if name not in ours}
    return {**others, PACKED: _attribute(json.dumps(ours, sort_keys=True))}


def _unpack(packed: Attribute) -> dict[str, Attribute] | None:
    """Return the headers in one attribute; None if that is none of ours."""
    try:
        found = json.loads(packed.get("StringValue", ""))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(_is_plain(each) for each in found.values()):
        return None
    return {name: _attribute(each) for name, each in found.items()}


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _encode(body: bytes) -> tuple[str, str | None]:
    """Return the text that stands for a body, and how; None if it is the body itself."""
    if not body:
        return _STANDS_FOR_NOTHING, EMPTY
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return b64encode(body).decode(), BASE64
    if _REFUSED_CHARACTER.search(text):
        return b64encode(body).decode(), BASE64
    return text, None


def _decode(text: str, attributes: dict[str, Attribute]) -> bytes:
    """Return the bytes that a text stands for, and take away the attribute that says so."""
    said = attributes.get(ENCODING, {}).get("StringValue")
    if said == EMPTY and text == _STANDS_FOR_NOTHING:
        del attributes[ENCODING]
        return b""
    if said == BASE64:
        try:
            body = b64decode(text, validate=True)
        except (NotBase64, ValueError):
            return text.encode()
        del attributes[ENCODING]
        return body
    return text.encode()


def in_requests(
    entries: Sequence[tuple[int, Entry]], most: int
) -> Iterable[list[tuple[int, Entry]]]:
    """Yield entries, with their places, as requests: at most `most` each, and LARGEST bytes."""
    some: list[tuple[int, Entry]] = []
    size = 0
    for place, entry in entries:
        if some and (len(some) == most or size + entry.size > LARGEST):
            yield some
            some, size = [], 0
        some.append((place, entry))
        size += entry.size
    if some:
        yield some
