"""Whatever came over the wire: it is stored, or refused by itself; it never blocks the others."""

from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha512

import pytest

from retrier.domain.failed_message import Failure, FailureDetails
from retrier.domain.failure_group import FailureGroup
from retrier.domain.identity import fingerprint
from retrier.errors import DataRefused
from retrier.store.schema import failed_imports, failure_groups, message_bodies, processing_attempts
from tests.contract.store_rows import again, messages, only_message, record, rows, untold
from tests.contract.test_store_ledger import failed_import
from tests.support.factories import FAILED_AT, confirmation, failure

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
    "content_type",
)
DETAILS = frozenset(field.name for field in fields(FailureDetails))
LONG = ("exception_message", "stack_trace", "completed_steps")


def deep(levels):
    nested = "bottom"
    for _ in range(levels):
        nested = {"down": nested}
    return nested


HEADERS = {
    "NUL": {"a": "\0"},
    "NUL in a name": {"\0": "a"},
    "a lone surrogate": {"a": "\ud800"},
    "a lone surrogate in a name": {"\udfff": "a"},
    "an integer above 64 bits": {"n": 2**64},
    "an integer of 400 digits": {"n": 10**400},
    "an integer of 5000 digits": {"n": 10**5000},
    "an integer above PostgreSQL's numbers": {"n": 1 << 450_000},
    "NaN": {"n": float("nan")},
    "infinity": {"n": float("-inf")},
    "bytes": {"a": b"\xff"},
    "an object": {"a": object()},
    "a name that is no text": {(1, 2): "a"},
    "a time": {"a": FAILED_AT},
    "100 levels": deep(100),
    "100,000 levels": deep(100_000),
    "9 kB": {"a": NINE_KB},
    "itself": {},
}
HEADERS["itself"]["self"] = HEADERS["itself"]
NO_MOMENT = datetime.max.replace(tzinfo=timezone(-timedelta(hours=14)))
FAILURES = {
    **{f"headers with {name}": {"headers": headers} for name, headers in HEADERS.items()},
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
    "a group twice": {
        "groups": (FailureGroup(group_id="g", classifier="c", title="t"),) * 2,
    },
    "a classifier of 9 kB": {
        "groups": (FailureGroup(group_id="g", classifier=NINE_KB, title="t"),),
    },
    "a title with a NUL": {
        "groups": (FailureGroup(group_id="g", classifier="c", title="a\0b"),),
    },
}


def made_of(changes):
    """Make a failure of which only this is hostile."""
    made = failure()
    details = {name: value for name, value in changes.items() if name in DETAILS}
    others = {name: value for name, value in changes.items() if name not in DETAILS}
    return replace(made, details=replace(made.details, **details), **others)


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
    def test_keeps_its_length_where_people_read_it(self, database, given):
        record(database, made_of(dict.fromkeys(LONG, given)))

        row, kept = only_message(database), given.replace("\0", "").replace("\ud800", "")
        assert {name: row[name] for name in LONG} == dict.fromkeys(LONG, kept)

    def test_is_cut_to_64_kb_where_people_read_it(self, database):
        record(database, made_of(dict.fromkeys(LONG, "€" * 100_000)))

        row = only_message(database)
        assert {len(row[name].encode()) for name in LONG} == {64 * 1024 - 1}

    def test_stays_as_it_was_in_the_raw_properties(self, database):
        raw = b"\x20\x00\x00\x00\x00\x00\xff\x00\xed\xa0\x80"

        record(database, failure(raw=raw))

        (attempt,) = rows(database, processing_attempts)
        assert only_message(database)["raw_properties"] == attempt["raw_properties"] == raw

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


def test_a_body_of_5_mb_is_stored_byte_for_byte(database):
    body = NINE_KB.encode() * 569 + b"\0\xff"

    record(database, failure(body=body))

    assert len(body) > 5_000_000
    assert [row["body"] for row in rows(database, message_bodies)] == [body]


def test_a_title_is_cut_like_all_that_is_indexed(database):
    group = FailureGroup(group_id="g", classifier="c", title=NINE_KB)

    record(database, failure(groups=(group,)))

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
