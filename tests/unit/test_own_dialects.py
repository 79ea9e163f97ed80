"""What formats of the settings read of a message, whatever that is."""

import json

import pytest
import yaml

from retrier.domain.dialects import by_name, recognise
from retrier.domain.dialects.own import OwnDialect, as_text, read_document, resolve
from retrier.domain.failed_message import FailureDetails
from retrier.ingestion.parsing import QueueMapping
from retrier.settings.dialects import DialectSection
from tests.support.dialect_headers import NSB, properties
from tests.support.raw_messages import delivery
from tests.support.understood import failure

WHOLE = """
name: ours
when: {header: X-Error}
queue: header:X-Origin
endpoint: text:shop
exception_type: {from: "header:X-Error", pattern: '^([A-Za-z]+):'}
message: header:X-Error
stack: body:/error/trace
reason: property:type
time: header:X-Time
attempts: header:X-Tries
message_type: body:/kind/0
message_id: body:/id
strip: ["X-Error*"]
"""
HEADERS: dict[str, object] = {
    "X-Error": "StockError: no stock left",
    "X-Origin": "orders",
    "X-Time": "2026-05-04T12:00:00+00:00",
    "X-Tries": "3",
}
BODY = json.dumps({"id": 7, "kind": ["OrderPlaced"], "error": {"trace": "at pack"}}).encode()


def made(text: str = WHOLE) -> OwnDialect:
    return DialectSection.model_validate(yaml.safe_load(text)).dialect


def read(body: bytes = BODY, **changes: object) -> FailureDetails:
    return made().read(properties(HEADERS | changes, type="business"), body=body)


def test_each_fact_is_read_where_the_settings_say():
    details = read()

    assert (details.queue, details.destination, details.endpoint) == ("orders", "orders", "shop")
    assert details.exception_type == "StockError"
    assert details.exception_message == "StockError: no stock left"
    assert details.stack_trace == "at pack"
    assert details.failure_reason == "business"
    assert details.time_of_failure is not None
    assert (details.attempts_reported, details.message_type, details.id_in_body) == (
        3,
        "OrderPlaced",
        "7",
    )


@pytest.mark.parametrize("time", ["1777896000", "2026-05-04 12:00:00:000000 Z"])
def test_a_time_is_read_as_a_number_and_as_nservicebus_writes_it(time):
    assert read(**{"X-Time": time}).time_of_failure == read().time_of_failure


@pytest.mark.parametrize("time", ["soon", "9" * 30, "-1", "", None, b"\xff"], ids=repr)
def test_what_is_no_time_is_none(time):
    assert read(**{"X-Time": time}).time_of_failure is None


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"\xff", b"[1]", b"null", b"[" * 90_000, b'{"id": null}']
)
def test_a_pointer_that_meets_nothing_leaves_the_rest(body):
    details = read(body)

    assert details.id_in_body is None
    assert details.exception_type == "StockError"


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/a/b", 1),
        ("/a/c/1", "y"),
        ("/a~1b/m~0n", "both"),
        ("/a/c/7", None),
        ("/a/c/-1", None),
        ("/a/c/x", None),
        ("/a/b/c", None),
        ("/a/c/" + "9" * 5000, None),
        ("/", None),
    ],
)
def test_a_pointer_is_followed_as_json_pointers_are(pointer, found):
    document = {"a": {"b": 1, "c": ["x", "y"]}, "a/b": {"m~n": "both"}}

    assert resolve(document, pointer) == found


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), (7, "7"), (True, "true"), ([1], "[1]"), (None, None), ("", None)],
)
def test_a_value_of_json_is_a_text(value, text):
    assert as_text(value) == text


def test_a_format_of_ones_own_comes_before_those_that_retrier_knows():
    own = made()

    assert recognise(properties(NSB, HEADERS), own=[own]) is own
    assert recognise(properties(NSB), own=[own]) is by_name("nservicebus")


def test_a_queue_can_name_it():
    own = made()

    assert recognise(properties(NSB), "ours", own=[own]) is own


def test_it_can_be_recognised_by_a_part_of_the_body():
    own = made("name: ours\nwhen: {body: /error/code, pattern: '^(E.*)$'}")

    assert own.recognises(properties(), b'{"error": {"code": "E7"}}')
    assert not own.recognises(properties(), b'{"error": {"code": "ok"}}')


def test_its_message_is_stored_with_its_texts():
    own = (made(),)
    mapping = QueueMapping(queue="error", own=own)

    found = failure(delivery(HEADERS, body=BODY), mapping)

    assert (found.dialect, found.message_id, found.keeps_texts) == ("ours", "7", True)
    assert found.computed_id is not None


def test_without_a_queue_it_lies_where_it_was_found_and_goes_nowhere():
    own = (made("name: ours\nwhen: {header: X-Error}\nmessage: header:X-Error"),)

    found = failure(delivery(HEADERS, queue="dead"), QueueMapping(queue="dead", own=own))

    assert (found.details.queue, found.details.destination) == ("dead", "")


@pytest.mark.parametrize(
    "body",
    [
        b'{"id": 123456789012345678901234567890, "total": 1.10, "rate": 1e400}',
        b'{"id": 1, "id": 2}',
        b'"\\ud800"',
        b'\xef\xbb\xbf{"id": 7}',
        '{"id": 7}'.encode("utf-16"),
        b"[" * 300 + b"7" + b"]" * 300,
        b"[-0, -0.0, 0.30000000000000004, 9007199254740993]",
    ],
)
def test_a_body_is_read_as_python_reads_json(body: bytes) -> None:
    assert repr(read_document(body)) == repr(json.loads(body))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"<order/>", b"[1,]", b"\xff", b"1" * 5000, b"[" * 10**5]
)
def test_a_body_that_is_no_json_is_nothing(body: bytes) -> None:
    assert read_document(body) is None
