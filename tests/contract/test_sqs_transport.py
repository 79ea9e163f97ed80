"""Amazon SQS against the conformance suite."""

from collections.abc import Mapping

import pytest

from tests.contract.sqs_fixtures import SqsFixtures, raw
from tests.contract.transport_suite import TransportSuite

TEXT = {"DataType": "String", "StringValue": "a ü 漢"}
SAMPLES: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"{}", b""),
    "text": (raw(kind=TEXT), '{"order": "ü"}'.encode()),
    "a body with line ends": (b"{}", b" a\tb\r\nc\n"),
    "no text": (b"{}", b"\xff\x00\x01"),
    "a character that SQS does not take": (b"{}", "\x00\ufffe".encode()),
    "binary": (raw(seal={"DataType": "Binary.png", "BinaryValue": "AAH/"}), b"x"),
    "numbers": (
        raw(
            **{
                "a.b-c_d": {"DataType": "Number", "StringValue": "007.50"},
                "n": {"DataType": "Number.int", "StringValue": "-12"},
            }
        ),
        b"x",
    ),
    "ten attributes": (raw(**{f"a{n}": TEXT for n in range(10)}), b"x"),
    "retry headers beside many": (
        raw(**{f"a{n}": TEXT for n in range(9)}, **{"Retrier.RetryId": TEXT, "Retrier.X": TEXT}),
        b"x",
    ),
    "retry headers beside many, and no text": (
        raw(**{f"a{n}": TEXT for n in range(9)}, **{"Retrier.RetryId": TEXT}),
        b"\xff",
    ),
}


class TestSqsTransport(SqsFixtures, TransportSuite):
    @pytest.fixture
    def samples(self) -> Mapping[str, tuple[bytes, bytes]]:
        return SAMPLES

    # SQS refuses a message that it does not take, so there is nothing to probe for.
    test_sends_one_probe_ahead_of_the_first_window = None
