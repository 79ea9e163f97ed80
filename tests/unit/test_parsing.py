"""What a delivery from an error queue turns out to be."""

from dataclasses import replace
from typing import Any

import pytest

from retrier.domain.failed_imports import UNFORESEEN
from retrier.domain.failed_message import FailedImport
from retrier.domain.headers import UNIQUE_MESSAGE_ID
from retrier.domain.wire import Delivery, Edit, Properties
from retrier.ingestion.parsing import parse, refused_import
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.raw_messages import (
    RECEIVED_AT,
    delivery,
    retrier_headers,
)
from tests.support.understood import CODEC, GUID, PLAIN, failed_import, failure, parsed

MARKS = "NServiceBus.FailedQ, Retrier.FailedQueue, x-death, or those of a library"
CONFIRMING = {
    "ServiceControl.Retry.Successful": "2024-05-01 11:59:00:000000 Z",
    UNIQUE_MESSAGE_ID: GUID,
}


class TestFailedImports:
    @pytest.mark.parametrize(
        ("arrived", "reason"),
        [
            (
                delivery({"Shop.Tenant": "north"}),
                f"none of the headers that say where it failed is there: {MARKS}",
            ),
            (
                delivery(retrier_headers() | {"Retrier.FailedQueue": ""}),
                "the header Retrier.FailedQueue is missing or empty",
            ),
            (
                delivery({"x-death": "tampered with"}),
                "no entry of the header x-death names a queue",
            ),
        ],
        ids=["no headers", "empty queue", "no table"],
    )
    def test_what_cannot_be_understood_says_why(self, arrived, reason):
        assert failed_import(arrived).reason == reason

    def test_unreadable_properties_are_kept_as_they_came(self):
        arrived = Delivery(tag=1, queue="error", raw=b"\xff", body=b"b", redelivered=False)

        found = failed_import(arrived)

        assert (found.raw, found.body, found.error_queue) == (b"\xff", b"b", "error")
        assert found.received_at == RECEIVED_AT
        assert found.reason.startswith("its properties cannot be read: ")

    def test_not_even_a_fault_of_our_own_blocks_the_others(self):
        class FaultyCodec(AmqpPropertyCodec):
            def read_with_canonical(self, raw: bytes) -> tuple[Properties, bytes]:
                raise ZeroDivisionError(raw)

        found = parse(delivery(), FaultyCodec(), PLAIN, RECEIVED_AT)

        assert isinstance(found, FailedImport)
        assert found.reason == f"{UNFORESEEN} ZeroDivisionError"

    def test_a_refused_failure_keeps_its_fingerprint(self):
        arrived = delivery(retrier_headers())

        refused = refused_import(arrived, failure(arrived), "bad\0 data", RECEIVED_AT)

        assert isinstance(refused, FailedImport)
        assert refused.reason == "the database refuses it: bad data"
        assert refused.fingerprint == failure(arrived).fingerprint

    def test_a_refused_confirmation_gets_a_fingerprint(self):
        arrived = delivery(CONFIRMING)

        refused = refused_import(arrived, parsed(arrived), "no", RECEIVED_AT)

        assert isinstance(refused, FailedImport)
        assert len(refused.fingerprint) == 32


class TestFingerprints:
    @pytest.mark.parametrize(
        "headers",
        [retrier_headers(), {"Shop.Tenant": "north"}, {}, None],
        ids=["a failure", "a failed import", "an empty table", "no headers at all"],
    )
    @pytest.mark.parametrize("counter", ["x-delivery-count", "x-acquired-count"])
    def test_a_redelivery_has_the_fingerprint_of_the_first_delivery(self, headers, counter):
        first = delivery(headers, message_id="9")
        again = delivery((headers or {}) | {counter: 1}, message_id="9", redelivered=True)

        assert fingerprint_of(again) == fingerprint_of(first)

    @pytest.mark.parametrize(
        "other",
        [
            delivery(retrier_headers() | {"Shop.Tenant": "north"}),
            delivery(retrier_headers(), body=b"other"),
            delivery(retrier_headers(), message_id="9"),
        ],
        ids=["header", "body", "property"],
    )
    def test_every_other_difference_makes_another_fingerprint(self, other):
        assert fingerprint_of(other) != fingerprint_of(delivery(retrier_headers()))


def fingerprint_of(arrived: Delivery) -> str:
    found: Any = parsed(arrived)
    return found.fingerprint


def test_a_table_emptied_by_an_edit_is_no_table():
    counted = delivery({"x-delivery-count": 2})
    emptied = replace(counted, raw=CODEC.edit(counted.raw, Edit(drop_headers=lambda _name: True)))

    assert fingerprint_of(emptied) == fingerprint_of(counted)
