"""The dialect of EasyNetQ: its error envelope, in which the original message stands as a text."""

import re
from collections.abc import Collection, Mapping

from retrier.domain.dialects.dialect import (
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Original,
    Unintelligible,
    amqp_field,
    count,
    is_text,
    table_of,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.json_texts import texts_of_members
from retrier.domain.times import from_epoch, parse_iso_time
from retrier.domain.wire import Properties

TYPE = "EasyNetQ.SystemMessages.Error"
LARGEST_ENVELOPE = 64 * 1024 * 1024
"""Bytes. A larger envelope is taken for a message of its own."""

_TEXTS = {
    "ContentType": "content_type",
    "ContentEncoding": "content_encoding",
    "CorrelationId": "correlation_id",
    "ReplyTo": "reply_to",
    "MessageId": "message_id",
    "Type": "type",
    "AppId": "app_id",
}
_NUMBERS = {"DeliveryMode": ("delivery_mode", 2), "Priority": ("priority", 255)}
_LARGEST_TIME = 2**63
_SHORT = 255
"""Bytes: AMQP's short string."""
_THROWN = re.compile(r"(?P<type>[A-Za-z_][\w.+`]*): (?P<text>.*)")

DECLARED = Declared(
    library="EasyNetQ",
    recognised_by=f"`type` begins with `{TYPE}`, and the body is its envelope",
    feeds={
        "queue": "body: `Queue`; it is empty before version 3, then not known",
        "exception_type": "body: `Exception`, its first line",
        "exception_message": "body: `Exception`, its first line",
        "stack_trace": "body: `Exception`",
        "time_of_failure": "body: `DateTime`",
        "message_type": "body: `BasicProperties.Type`",
        "message_id": "body: `BasicProperties.MessageId`, else `BasicProperties.CorrelationId`",
        "time_sent": "body: `BasicProperties.Timestamp`",
    },
    comes_back="keeps all headers, in the envelope: `Message` goes back with `BasicProperties`",
)


class EasyNetQDialect(Library):
    """An envelope of JSON. It stays stored and shown; what goes back is the message inside."""

    name = "easynetq"
    mark = "type"
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:
        """Say whether the message is an envelope that can be opened."""
        named = str(properties.fields.get("type") or "")
        return (
            named.startswith(TYPE) and _find_message(table_of(body, LARGEST_ENVELOPE)) is not None
        )

    def read(
        self,
        properties: Properties,  # noqa: ARG002 - they are those of the envelope
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - the envelope says where it failed
    ) -> FailureDetails | Unintelligible:
        """Read the envelope."""
        told = table_of(body, LARGEST_ENVELOPE)
        if _as_sent(_find_message(told) or "") is None:
            return Unintelligible(
                "the Message of its envelope has half of a character, which no text of a sender has: "
                "nobody knows what was sent"
            )
        queue = is_text(told.get("Queue")) or otherwise or NOT_KNOWN
        inner = _properties(told.get("BasicProperties"))
        trace = is_text(told.get("Exception"))
        thrown = _THROWN.match(trace or "")
        return FailureDetails(
            queue=queue,
            destination=queue,
            message_type=amqp_field(inner, "type"),
            exception_type=thrown["type"] if thrown else None,
            exception_message=(thrown["text"] if thrown else (trace or "").partition("\n")[0])
            or None,
            stack_trace=trace,
            time_of_failure=parse_iso_time(is_text(told.get("DateTime"))),
            time_sent=from_epoch(inner.fields.get("timestamp")),
        )

    def message_id(self, properties: Properties) -> str | None:
        """Return the id of the message inside, else what correlates it: EasyNetQ sets only that."""
        named = amqp_field(properties, "message_id")
        return named or amqp_field(properties, "correlation_id")

    def unwrap(self, properties: Properties, body: bytes) -> Original | None:  # noqa: ARG002 - the body says it
        """Return the message inside, with its properties."""
        told = table_of(body, LARGEST_ENVELOPE)
        text = _find_message(told)
        sent = None if text is None else _as_sent(text)
        if sent is None:
            return None
        found = _properties(told.get("BasicProperties"))
        odd = {
            name for name, value in found.headers.items() if isinstance(value, float | dict | list)
        }
        headers = {**found.headers, **_texts_of(odd, body)} if odd else found.headers
        return Original(sent, headers, found.fields)


def _find_message(told: Mapping[str, object]) -> str | None:
    """Return the text of the message in an envelope; None if it is none."""
    text, inner = told.get("Message"), told.get("BasicProperties")
    if not isinstance(text, str) or not isinstance(inner, dict | None):
        return None
    return text if {"Exception", "RoutingKey", "Exchange"} <= told.keys() else None


def _as_sent(text: str) -> bytes | None:
    """Return the bytes of a text; None if it has half of a character: no bytes are known for that."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _texts_of(names: Collection[str], body: bytes) -> Mapping[str, str]:
    """Return these headers as they stand in the envelope: written anew, 1.10 would be 1.1."""
    inner = texts_of_members(body.decode(errors="replace")).get("BasicProperties", "")
    texts = texts_of_members(texts_of_members(inner).get("Headers", ""))
    return {name: texts[name] for name in names if name in texts}


def _properties(inner: object) -> Properties:
    """Return properties as AMQP can hold them; what it cannot hold is left out."""
    told: Mapping[str, object] = inner if isinstance(inner, dict) else {}
    texts = {
        name: _sound(value)
        for key, name in _TEXTS.items()
        if (value := is_text(told.get(key))) and _is_short(value) and _is_there(told, key)
    }
    numbers = {
        name: number
        for key, (name, most) in _NUMBERS.items()
        if (number := count(told.get(key))) and number <= most and _is_there(told, key)
    }
    timestamp = told.get("Timestamp")
    is_time = type(timestamp) is int and 0 < timestamp < _LARGEST_TIME
    if isinstance(timestamp, int) and is_time and _is_there(told, "Timestamp"):
        numbers["timestamp"] = timestamp
    headers = told.get("Headers")
    return Properties(
        headers={_sound(name): value for name, value in headers.items() if name and _is_short(name)}
        if isinstance(headers, dict)
        else {},
        fields={**texts, **numbers},
    )


def _is_there(told: Mapping[str, object], key: str) -> bool:
    """Say whether the property was set: older versions write values also for those that were not."""
    return told.get(f"{key}Present") is not False


def _is_short(text: str) -> bool:
    return len(text.encode(errors="replace")) <= _SHORT


def _sound(text: str) -> str:
    """Return a text that can be encoded: JSON may hold halves of characters."""
    return text.encode(errors="replace").decode()
