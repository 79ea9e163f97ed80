"""What would become of messages by the settings: nothing is connected to, and nothing is stored."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrier.app.parts import make_mapping, make_transport
from retrier.clock import SystemClock
from retrier.domain import dialects
from retrier.domain.dialects.dialect import NOT_KNOWN, Original
from retrier.domain.failed_imports import Told, Trial, TriedMessage
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    OwnCopy,
    Received,
    Stamped,
)
from retrier.domain.headers import is_among
from retrier.domain.wire import Delivery, PropertyCodec
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.settings import check_dialects, read_text
from retrier.settings.model import ErrorQueue, Settings
from retrier.transport.embedded.properties import EnvelopePropertyCodec

_SECTION = "dialects"
_ROOT = "ingestion"
IN_FORCE = Trial()


def written(
    queue: str, properties: Mapping[str, Any], headers: Mapping[str, Any], body: bytes
) -> TriedMessage:
    """Return a message of which somebody wrote down properties, by their names in AMQP."""
    inside = {name: value for name, value in properties.items() if name != "headers"}
    outside = {
        name.replace("_", "-"): inside.pop(name)
        for name in ("content_type", "content_encoding")
        if name in inside
    }
    envelope = {**outside, "properties": inside, "headers": dict(headers)}
    return TriedMessage(queue=queue, raw=json.dumps(envelope).encode(), body=body, is_written=True)


def try_messages(
    settings: Settings, messages: Sequence[TriedMessage], trial: Trial = IN_FORCE
) -> list[Told]:
    """Return what each would be by these settings, and what its retry would leave out.

    Raises ConfigurationError for formats that are wrong.
    """
    if trial.section is not None:
        own = check_dialects(_read_section(trial.section))
        ingestion = settings.ingestion.model_copy(update={_SECTION: own})
        settings = settings.model_copy(update={_ROOT: ingestion})
    queues = {each.queue: each for each in settings.ingestion.error_queues}
    now = SystemClock().now()
    told: list[Told] = []
    for each in messages:
        known = queues.get(each.queue)
        mapping = make_mapping(settings, known or ErrorQueue(queue=each.queue))
        mapping = replace(mapping, dialect=trial.dialect or mapping.dialect)
        codec = _codec(settings, each)
        arrived = Delivery(
            tag=None, queue=each.queue, raw=each.raw, body=each.body, redelivered=False
        )
        found = parse(arrived, codec, mapping, now)
        told.append({"error_queue": each.queue, **_describe(found, codec, mapping)})
    return told


def _read_section(section: object) -> object:
    """Return the list of formats in a text: the list alone, or with the keys around it."""
    found = read_text(section) if isinstance(section, str) else section
    for name in (_ROOT, _SECTION):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return [] if found is None or found == {} else found


def _codec(settings: Settings, message: TriedMessage) -> PropertyCodec:
    """A message that is written for the trial is one of Kombu's."""
    return EnvelopePropertyCodec() if message.is_written else make_transport(settings).codec


def _describe(found: Received, codec: PropertyCodec, mapping: QueueMapping) -> Told:
    match found:
        case Failure():
            return _describe_failure(found, codec, mapping)
        case FailedImport(reason=reason):
            return {"becomes": "failed import", "reason": reason}
        case Confirmation(unique_message_id=unique_id):
            return {"becomes": "confirmation", "of": unique_id}
        case OwnCopy() | Stamped():
            return {"becomes": "copy out of a staging queue, if its stamps are true"}


def _describe_failure(found: Failure, codec: PropertyCodec, mapping: QueueMapping) -> Told:
    details = found.details
    stripped = [each for own in mapping.own for each in own.strip]
    inside = dialects.unwrap(found.dialect, codec.read(found.raw), found.body)
    headers = inside.headers if inside else codec.read(found.raw).headers
    facts = {
        "becomes": "failed message",
        "dialect": found.dialect,
        "queue": details.queue,
        "destination": None if details.destination == NOT_KNOWN else details.destination,
        "endpoint": details.endpoint,
        "message_type": details.message_type,
        "message_id": found.message_id,
        "exception_type": details.exception_type,
        "exception_message": details.exception_message,
        "stack_trace": details.stack_trace,
        "failure_reason": details.failure_reason,
        "time_of_failure": details.time_of_failure and details.time_of_failure.isoformat(),
        "attempts": details.attempts_reported,
        "stream": details.stream_id,
        "left_out": sorted(
            name
            for name in headers
            if dialects.strips(found.dialect, name) or is_among(name, stripped)
        ),
        "goes_back": _what_goes_back(inside, found.body),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _what_goes_back(inside: Original | None, body: bytes) -> str:
    if inside is None or (inside.keeps_properties and inside.body == body):
        return "the message as it came"
    if inside.keeps_properties:
        return "the message without what its failure added to the body"
    return "the message inside its envelope"
