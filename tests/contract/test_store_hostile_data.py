"""Whatever came over the wire: it is stored, or refused by itself; it never blocks the others."""

import json
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha512

import pytest

from retrier.domain.classifiers import cause_of
from retrier.domain.failed_message import Failure, FailureDetails, FailureGroup
from retrier.domain.identity import fingerprint
from retrier.errors import DataRefused
from retrier.store.message_details import find_body, find_message
from retrier.store.schema import failed_imports, failure_groups, processing_attempts
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.contract.store_rows import again, messages, only_message, record, rows, untold
from tests.support.factories import confirmation, failed_import, failure, unique_id
from tests.support.raw_messages import raw_properties, retrier_headers

NINE_KB = "".join(sha512(bytes([number])).hexdigest() for number in range(72))
TEXTS = {
    "a NUL": ("a\0b", "ab"),
    "a lone surrogate": ("a\ud800b", "ab"),
    "9 kB": (NINE_KB, NINE_KB[:1024]),
    "9 kB of 3 bytes each": ("€" * 3072, "€" * 341),
}
HOSTILE = pytest.mark.parametrize(("given", "kept"), TEXTS.values(), ids=TEXTS.keys())
SHORT = (
    "message_id",
    "queue",
    "destination",
    "endpoint",
    "message_type",
    "exception_type",
    "failure_reason",
    "stream_id",
)
DETAILS = frozenset(field.name for field in fields(FailureDetails))
CODEC = AmqpPropertyCodec()
GROUP = FailureGroup(
    group_id="6e0c0000-0000-4000-8000-000000000001", classifier="Queue", title="orders"
)


NO_MOMENT = datetime.max.replace(tzinfo=timezone(-timedelta(hours=14)))
FAILURES = {
    "a time after the end of time": {"time_sent": NO_MOMENT},
    "a failure in the first year": {"time_of_failure": datetime(1, 1, 1, tzinfo=UTC)},
    "a failure after the end of time": {"time_of_failure": NO_MOMENT},
    "a time without offset": {"time_sent": datetime(2026, 1, 1)},  # noqa: DTZ001 - the point
    "a stamp of 9 kB": {"stamped_id": NINE_KB},
    "a stamp with a NUL": {"stamped_id": "a\0b"},
    "a stamp with a lone surrogate": {"stamped_id": "\ud800"},
    "a retry id of 9 kB": {"retry_id": NINE_KB},
    "a retry id with a NUL": {"retry_id": "a\0b"},
    "an error queue with a NUL": {"error_queue": "a\0b"},
    "an error queue with a lone surrogate": {"error_queue": "\ud800"},
    "a dialect of 9 kB": {"dialect": NINE_KB},
    "a fingerprint of 9 kB": {"fingerprint": NINE_KB},
    "a fingerprint that is none": {"fingerprint": "\0"},
    "a group twice": {"groups": (GROUP, GROUP)},
    "a classifier of 9 kB": {"groups": (replace(GROUP, classifier=NINE_KB),)},
    "a title with a NUL": {"groups": (replace(GROUP, title="a\0b"),)},
    "a message type with a NUL": {"message_type": "a\0b"},
    "an exception type of 9 kB": {"exception_type": NINE_KB},
    "an endpoint with a lone surrogate": {"endpoint": "\ud800"},
    "a queue with a lone surrogate": {"queue": "\ud800"},
}


def table_of(size):
    """Return headers that take so many bytes, more or less."""
    return {f"Header {number}": "x" * 100 for number in range(size // 110)}


def deep(levels):
    nested = "bottom"
    for _ in range(levels):
        nested = {"down": nested}
    return nested


RAW = {
    "a NUL": raw_properties(retrier_headers(a="\0")),
    "a NUL in a name": raw_properties(retrier_headers(**{"\0": "a"})),
    "text that is no UTF-8": raw_properties(retrier_headers(a="abcd")).replace(
        b"abcd", b"a\xff\xfe\xed"
    ),
    "bytes": raw_properties(retrier_headers(a=b"\xff")),
    "a time": raw_properties(retrier_headers(a=datetime(9999, 12, 31, tzinfo=UTC))),
    "100 levels": raw_properties(retrier_headers(a=deep(100))),
    "as many headers as a frame holds": raw_properties(retrier_headers(**table_of(127 * 1024))),
    "a trace of 100 kB": raw_properties(
        retrier_headers(**{"Retrier.Exception.StackTrace": "\0" + "at\n" * 33_000})
    ),
    "no properties": b"",
    "what cannot be read": b"\x20\x00\x00\x00\x00\x00\xff\x00\xed\xa0\x80",
}
"""Properties by what is hostile in them."""


def made_of(changes):
    """Make a failure of which only this is hostile."""
    made = failure()
    details = {name: value for name, value in changes.items() if name in DETAILS}
    others = {name: value for name, value in changes.items() if name not in DETAILS | {"groups"}}
    hostile = replace(made.details, **details)
    cause = cause_of(hostile)
    cause = replace(cause, groups=changes.get("groups", cause.groups))
    return replace(made, details=hostile, cause=cause, **others)


def take_in(db, *batch):
    """Record a batch as ingestion does: together, or else one by one."""
    try:
        record(db, *batch)
    except DataRefused:
        for each in batch:
            take_in_alone(db, each)


def take_in_alone(db, received):
    try:
        record(db, received)
    except DataRefused as refusal:
        record(db, as_failed_import(received, str(refusal)))


def refusal_of(db, received):
    """Record one failure; return the words it was refused with."""
    try:
        record(db, received)
    except DataRefused as refusal:
        return str(refusal)
    return None


def as_failed_import(received: Failure, reason):
    return failed_import(
        received.raw,
        received.body,
        reason=reason,
        fingerprint=fingerprint(received.raw, received.body),
    )


class TestTextThatNoColumnTakes:
    @HOSTILE
    def test_is_cut_to_what_an_index_holds(self, database, given, kept):
        record(database, made_of(dict.fromkeys(SHORT, given)))

        row = only_message(database)
        assert {name: row[name] for name in SHORT} == dict.fromkeys(SHORT, kept)

    @pytest.mark.parametrize(
        "given", ["a\0b" * 1000, "a\ud800b" * 1000, NINE_KB], ids=["NUL", "surrogate", "9 kB"]
    )
    def test_keeps_its_length_where_it_is_sent_on(self, database, given):
        record(database, made_of({"completed_steps": given}))

        kept = given.replace("\0", "").replace("\ud800", "")
        assert only_message(database)["completed_steps"] == kept

    def test_is_cut_to_64_kb_where_it_is_sent_on(self, database):
        record(database, made_of({"completed_steps": "€" * 100_000}))

        assert len(only_message(database)["completed_steps"].encode()) == 64 * 1024 - 1

    def test_stays_as_it_was_in_the_raw_properties(self, database):
        raw = b"\x20\x00\x00\x00\x00\x00\xff\x00\xed\xa0\x80"

        record(database, failure(raw=raw))

        (attempt,) = rows(database, processing_attempts)
        assert attempt["raw_properties"] == raw

    @HOSTILE
    def test_gives_one_message_for_one_message_id(self, database, given, kept):
        first = failure()

        record(database, replace(first, message_id=given))
        receipt = record(database, replace(again(first), message_id=given))

        assert receipt.repeated == 1
        assert only_message(database)["message_id"] == kept


def test_a_hostile_failure_is_stored_or_refused_and_blocks_no_other(database):
    before = [failure() for _ in FAILURES]

    for good, changes in zip(before, FAILURES.values(), strict=True):
        take_in(database, good, made_of(changes))

    stored = messages(database)
    assert {each.computed_id for each in before} <= set(stored)
    assert len(stored) + len(rows(database, failed_imports)) == 2 * len(FAILURES)
    assert untold(database) == 0


def test_a_refusal_says_why_and_does_not_quote(database):
    refusals = {name: refusal_of(database, made_of(changes)) for name, changes in FAILURES.items()}

    unfit = {
        name: words
        for name, words in refusals.items()
        if words and (len(words) > 200 or "INSERT" in words or NINE_KB[:40] in words)
    }
    assert any(refusals.values())
    assert unfit == {}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
def test_whatever_the_properties_hold_the_message_is_stored_as_it_came_and_shown(database, raw):
    made = failure(raw=raw)

    record(database, made)

    shown = find_message(database, unique_id(made), CODEC)
    assert only_message(database)["raw_properties"] == raw
    assert shown.message.unique_message_id == unique_id(made)
    json.dumps(shown.headers, allow_nan=False)


def test_properties_that_cannot_be_read_show_nothing_but_what_was_stored(database):
    made = failure(raw=RAW["what cannot be read"])

    record(database, made)

    shown = find_message(database, unique_id(made), CODEC)
    assert (shown.headers, shown.content_type, shown.message.stack_trace) == ({}, None, None)
    assert shown.message.queue == "orders"


def test_a_body_of_5_mb_is_stored_byte_for_byte(database):
    body = NINE_KB.encode() * 569 + b"\0\xff"
    made = failure(body=body)

    record(database, made)

    assert len(body) > 5_000_000
    assert find_body(database, unique_id(made), CODEC).body == body


def test_a_title_is_cut_like_all_that_is_indexed(database):
    record(database, made_of({"groups": (replace(GROUP, title=NINE_KB),)}))

    assert [row["title"] for row in rows(database, failure_groups)] == [NINE_KB[:1024]]


@HOSTILE
def test_a_failed_import_is_never_refused(database, given, kept):
    """There is nothing else to make of it: refused, it would come again for ever."""
    record(database, failed_import(reason=given, error_queue=given))

    (row,) = rows(database, failed_imports)
    assert (row["reason"], row["error_queue"]) == (kept, kept)


@pytest.mark.parametrize("body", [b"", b"\0", b"x" * 5_000_000], ids=lambda body: str(len(body)))
def test_a_failed_import_keeps_any_body(database, body):
    record(database, failed_import(body=body))

    assert [row["body"] for row in rows(database, failed_imports)] == [body]


@pytest.mark.parametrize("unique_id", ["", "a\0b", "\ud800", NINE_KB], ids=ascii)
def test_a_hostile_confirmation_is_counted_or_refused(database, unique_id):
    record(database, failure())

    with suppress(DataRefused):
        record(database, confirmation(unique_id))

    assert only_message(database)["status"] == "unresolved"
    assert untold(database) == 0
