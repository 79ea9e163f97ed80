"""Whatever lies on an error queue, parsing answers; and what it answers a database can hold."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.copies import without_envelope
from retrier.domain.dialects import DIALECTS
from retrier.domain.failed_imports import UNFORESEEN
from retrier.domain.failed_message import FailedImport, Failure
from retrier.domain.failure_texts import Shown, derive
from retrier.domain.headers import RETRY_SUCCESSFUL, STAGING_ID, UNIQUE_MESSAGE_ID
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.wire import Delivery, Edit, Properties
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.library_samples import SAMPLES, easynetq
from tests.support.raw_messages import (
    RECEIVED_AT,
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)

KNOWN_NAMES = sorted(
    {
        *nservicebus_headers(),
        *retrier_headers(),
        *rabbitmq_headers(),
        STAGING_ID,
        RETRY_SUCCESSFUL,
        UNIQUE_MESSAGE_ID,
        "NServiceBus.ReplyToAddress",
        "Retrier.RetryId",
        "x-delivery-count",
        *(name for each in SAMPLES for name in each.headers),
    }
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
    | st.decimals()
    | st.sampled_from(["sales@HOST", "2024-05-01 11:58:03:123456 Z", "9999-12-31T23:59:59Z", "\0"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["queue", "reason", "time", "count"]) | st.text(max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
headers = st.dictionaries(st.sampled_from(KNOWN_NAMES) | st.text(max_size=12), values, max_size=8)
fields = st.dictionaries(
    st.sampled_from(["message_id", "timestamp", "type", "content_type", "app_id"]),
    st.sampled_from(["EasyNetQ.SystemMessages.Error, EasyNetQ", "faststream-1"])
    | st.text(max_size=12)
    | st.integers(0, 2**64 - 1),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
inner_names = st.sampled_from(["Headers", "Type", "MessageId", "Timestamp", "DeliveryMode"])
envelopes = st.builds(
    easynetq,
    message=st.text(st.characters(exclude_categories=()), max_size=20),
    BasicProperties=st.dictionaries(inner_names, json_values) | json_values,
    Queue=json_values,
    Exception=json_values,
)
bodies = (
    st.binary(max_size=40)
    | envelopes
    | st.builds(lambda each, cut: each.body[:cut], st.sampled_from(SAMPLES), st.integers(0, 2000))
)
mappings = st.builds(
    QueueMapping,
    queue=st.just("error"),
    dialect=st.none() | st.sampled_from([*(each.name for each in DIALECTS), "esperanto"]),
    destination=st.none() | st.just("orders"),
)


class ReadyMade:
    """A codec whose properties are what hypothesis made of them."""

    empty = b""

    def __init__(self, properties: Properties) -> None:
        self.properties = properties

    def read(self, raw: bytes) -> Properties:
        """Return the properties."""
        del raw
        return self.properties

    def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
        """Return the properties, and change nothing."""
        return self.properties, raw

    def edit(self, raw: bytes, edit: Edit) -> bytes:
        """Change nothing."""
        del edit
        return raw

    def canonical(self, raw: bytes) -> bytes:
        """Change nothing."""
        return raw


def deliver(raw: bytes, body: bytes = b"") -> Delivery:
    return Delivery(tag=1, queue="error", raw=raw, body=body, redelivered=False)


@given(raw=st.binary(), body=st.binary(), mapping=mappings)
def test_arbitrary_bytes_are_understood_or_kept_as_they_came(raw, body, mapping):
    found = parse(deliver(raw, body), AmqpPropertyCodec(), mapping, RECEIVED_AT)

    assert isinstance(found, Failure | FailedImport)
    assert UNFORESEEN not in getattr(found, "reason", "")
    assert (found.raw, found.body) == (raw, body)


@given(headers=headers, fields=fields, body=bodies, mapping=mappings)
def test_arbitrary_headers_are_understood_or_told_why_not(headers, fields, body, mapping):
    codec = ReadyMade(Properties(headers=headers, fields=fields))

    found = parse(deliver(b"", body), codec, mapping, RECEIVED_AT)

    assert UNFORESEEN not in getattr(found, "reason", "")


@given(headers=headers, fields=fields, body=bodies)
def test_a_failure_holds_only_what_a_database_can_hold(headers, fields, body):
    codec = ReadyMade(Properties(headers=headers, fields=fields))
    mapping = QueueMapping(queue="error", destination="orders")

    found = parse(deliver(b"", body), codec, mapping, RECEIVED_AT)

    if isinstance(found, Failure):
        for column in storable_columns(found):
            assert_storable(column)


@given(headers=headers, fields=fields, dialect=st.sampled_from([*DIALECTS]))
def test_what_is_shown_of_a_failure_is_what_json_and_a_database_can_hold(headers, fields, dialect):
    codec = ReadyMade(Properties(headers=headers, fields=fields))

    shown = derive(codec, b"", dialect=dialect.name, otherwise="orders")

    assert json.loads(json.dumps(shown.headers, allow_nan=False)) == shown.headers
    assert not any("\0" in text for text in texts(shown.headers))
    for text in (shown.content_type, shown.endpoint, shown.exception_message, shown.stack_trace):
        assert_storable(text)


@given(headers=headers, fields=fields)
def test_what_is_shown_of_a_failure_is_what_ingestion_understood(headers, fields):
    codec = ReadyMade(Properties(headers=headers, fields=fields))
    mapping = QueueMapping(queue="error", destination="orders")

    found = parse(deliver(b""), codec, mapping, RECEIVED_AT)

    if isinstance(found, Failure):
        shown = derive(codec, b"", dialect=found.dialect, otherwise=found.details.queue)
        assert (shown.endpoint, shown.exception_message, shown.stack_trace) == (
            found.details.endpoint,
            found.details.exception_message,
            found.details.stack_trace,
        )


@given(body=envelopes, codec=st.sampled_from([AmqpPropertyCodec(), EnvelopePropertyCodec()]))
def test_what_stands_in_an_envelope_goes_back_whatever_its_properties_are(body, codec):
    original = StoredOriginal(codec.empty, body, "easynetq", "error", None)

    sent = without_envelope(codec, original)

    codec.read(sent.raw)
    said = json.loads(body)["Message"].encode(errors="replace")
    assert sent.body in (said, body)


@given(
    raw=st.binary(),
    codec=st.sampled_from([AmqpPropertyCodec(), EnvelopePropertyCodec()]),
    dialect=st.sampled_from([*(each.name for each in DIALECTS), "esperanto"]),
)
def test_bytes_of_any_broker_are_shown_without_an_error(raw, codec, dialect):
    shown = derive(codec, raw, dialect=dialect)

    assert isinstance(shown, Shown)


def texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for part in (*value, *value.values()):
                yield from texts(part)
        case list():
            for part in value:
                yield from texts(part)


def storable_columns(found: Failure) -> list[object]:
    groups = [column for group in found.cause.groups for column in asdict(group).values()]
    ids = [found.stamped_id, found.computed_id, found.message_id, found.retry_id]
    cause = [value for name, value in asdict(found.cause).items() if name != "groups"]
    return [*asdict(found.details).values(), *cause, *groups, *ids]


def assert_storable(column: Any) -> None:
    match column:
        case str():
            assert "\0" not in column
            assert len(column.encode()) <= 64 * 1024
        case datetime():
            assert column.tzinfo is UTC
        case None | int():
            pass
        case other:
            raise AssertionError(f"{other!r} is in no column")


def test_the_columns_are_looked_at():
    found = parse(
        deliver(b""),
        ReadyMade(Properties(headers=retrier_headers(), fields={"timestamp": 1714564800})),
        QueueMapping(queue="error"),
        RECEIVED_AT,
    )

    assert isinstance(found, Failure)
    assert {type(column) for column in storable_columns(found)} == {
        str,
        int,
        datetime,
        type(None),
    }
