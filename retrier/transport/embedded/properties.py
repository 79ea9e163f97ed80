"""The properties of a Kombu message, read and edited as the JSON envelope without its body."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from retrier.domain.wire import SETTABLE_TEXTS, Edit, Properties, UnreadableProperties

OUTSIDE: Mapping[str, str] = {
    "content_type": "content-type",
    "content_encoding": "content-encoding",
    "headers": "headers",
}
"""The fields at the top level of the envelope, each with its name there."""
INSIDE = (
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""The fields that are in `properties`, under their names in AMQP."""
OCTETS = frozenset({"delivery_mode", "priority"})
_NUMBERS = OCTETS | {"timestamp"}
DEEPEST = 64
"""Most levels of nesting: encoding a deeper envelope might overflow a smaller stack."""

Envelope = dict[str, Any]


class EnvelopePropertyCodec:
    """Reads and edits the envelopes of Kombu messages."""

    empty = b"{}"
    """An envelope without any field."""
    of_rabbitmq = True  # the same programs may use both
    surely_fits: int | None = None

    def why_too_large(self, raw: bytes, body: bytes) -> str | None:  # noqa: ARG002 - as the seam
        """Return None: no edit and no patch makes as much as these brokers take, 128 MiB."""
        return None

    def read(self, raw: bytes) -> Properties:
        """Decode for reading; a field that is null counts as absent. Raises UnreadableProperties.

        Dates, times of day and UUIDs are returned as text. An object that looks like one of Kombu's
        typed values, but cannot be decoded, is returned unchanged.
        """
        envelope = _load(raw)
        properties = envelope.get("properties") or {}
        headers = envelope.get("headers") or {}
        found = {name: envelope.get(key) for name, key in OUTSIDE.items() if key != "headers"}
        found |= {name: properties.get(name) for name in INSIDE}
        return Properties(
            headers={name: _decode(value) for name, value in headers.items()},
            fields={name: _field(value) for name, value in found.items() if value is not None},
        )

    def read_what_can_be(self, raw: bytes) -> tuple[Properties, str | None]:
        """Decode all or nothing: JSON that is cut off says nothing. Never raises."""
        try:
            return self.read(raw), None
        except UnreadableProperties as error:
            return Properties(headers={}, fields={}), str(error)

    def read_fields(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, str | int]:
        """Decode these fields only. Raises UnreadableProperties.

        An envelope that cannot have them is not read, so it may be one that cannot be read.
        """
        if not any(_may_name(raw, OUTSIDE.get(name, name)) for name in wanted):
            return {}
        fields = self.read(raw).fields
        return {name: fields[name] for name in wanted & fields.keys()}

    def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
        """Decode, and return the envelope unchanged as well. Raises UnreadableProperties."""
        return self.read(raw), raw

    def read_headers(self, raw: bytes, wanted: frozenset[str]) -> Mapping[str, object]:
        """Decode these headers only. Raises UnreadableProperties."""
        headers = self.read(raw).headers
        return {name: headers[name] for name in wanted & headers.keys()}

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Return the envelope with the edit applied.

        Headers that are set are appended. Raises UnreadableProperties; ValueError for a field
        that cannot be set.
        """
        envelope = _load(raw)
        _drop_fields(envelope, edit.drop_fields)
        _set_fields(envelope, edit.set_fields)
        if envelope.get("headers") or edit.set_headers:
            envelope["headers"] = _edit_headers(envelope.get("headers") or {}, edit)
        return json.dumps(envelope).encode()

    def canonical(self, raw: bytes) -> bytes:
        """Return the envelope unchanged: delivery counts are columns, not part of it.

        Raises UnreadableProperties.
        """
        _load(raw)
        return raw


def _may_name(raw: bytes, key: str) -> bool:
    r"""Say whether an envelope may have a key; each retry asks, and reading JSON takes its time.

    JSON may write a letter of a key as an escape, as in `user\u005fid`.
    """
    return f'"{key}"'.encode() in raw or b"\\u00" in raw or not raw.startswith(b"{")


def _load(raw: bytes) -> Envelope:
    if not raw:
        raise UnreadableProperties("there is no envelope: Kombu did not write this message")
    try:
        envelope = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadableProperties(f"the envelope is not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise UnreadableProperties("the envelope is not a JSON object")
    for name in ("headers", "properties"):
        # PHP writes an object without members as an empty list; Celery takes that, too.
        if envelope.get(name) != [] and not isinstance(envelope.get(name), dict | None):
            raise UnreadableProperties(f"the {name} of the envelope are not a JSON object")
    if raw.count(b"{") + raw.count(b"[") > DEEPEST and _is_deeper(envelope, DEEPEST):
        raise UnreadableProperties(f"the envelope is nested more than {DEEPEST} deep")
    return envelope


def _is_deeper(value: object, levels: int) -> bool:
    match value:
        case dict():
            inner: Iterable[object] = value.values()
        case list():
            inner = value
        case _:
            return False
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


def _drop_fields(envelope: Envelope, names: frozenset[str]) -> None:
    properties = envelope.get("properties") or {}
    for name in names:
        if name in OUTSIDE:
            envelope.pop(OUTSIDE[name], None)
        else:
            properties.pop(name, None)


def _set_fields(envelope: Envelope, fields: Mapping[str, int | str]) -> None:
    for name, value in fields.items():
        if name not in (_NUMBERS if isinstance(value, int) else SETTABLE_TEXTS):
            raise ValueError(f"cannot set {name} to {value!r}")
        if name in OUTSIDE:
            envelope[OUTSIDE[name]] = value
        else:
            envelope["properties"] = {**(envelope.get("properties") or {}), name: value}


def _edit_headers(headers: Envelope, edit: Edit) -> Envelope:
    kept = {
        name: value
        for name, value in headers.items()
        if name not in edit.set_headers and not edit.drop_headers(name)
    }
    return {**kept, **edit.set_headers}


def _field(value: object) -> str | int:
    match _decode(value):
        case str() | int() as plain:
            return plain
        case float() as number if isfinite(number):
            return int(number)
        case datetime() as time:
            return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
        case bytes() as binary:
            return binary.decode("utf-8", "backslashreplace")
        case other:
            return str(other)


def _decode(value: object) -> object:
    match value:
        case {"__type__": str(kind), "__value__": inner, **others} if not others:
            return _typed(kind, inner, value)
        case dict():
            return {name: _decode(each) for name, each in value.items()}
        case list():
            return [_decode(each) for each in value]
        case _:
            return value


def _typed(kind: str, inner: Any, otherwise: object) -> object:
    try:
        return DECODERS[kind](inner)
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError):
        return otherwise


DECODERS: Mapping[str, Callable[[Any], object]] = {
    "datetime": datetime.fromisoformat,
    "date": str,
    "time": str,
    "decimal": Decimal,
    "uuid": lambda inner: str(UUID(**inner)),
    "bytes": str.encode,
    "base64": b64decode,
}
"""The types of Kombu's JSON (kombu.utils.json)."""
