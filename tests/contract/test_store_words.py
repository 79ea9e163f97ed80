"""Words of messages: read after their failures, gone with messages, the same on both databases."""

import gzip
import json

import pytest
from sqlalchemy import insert, select, update

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Failure
from retrier.domain.search import By, find_ways
from retrier.domain.selection import Selection
from retrier.errors import TooManyFound
from retrier.store import selections, words
from retrier.store.engine.database import Database
from retrier.store.message_lists import Order, PageRequest, list_messages
from retrier.store.schema import attempt_number, message_words, word_progress
from retrier.store.search import search
from retrier.store.selections import count_matches, find_chunk, freeze_words
from retrier.store.verification import verify_store
from retrier.store.words import (
    fill_words,
    find_unread,
    get_lag,
    look_at_numbers,
    write_words,
)
from tests.contract.store_rows import again, record, rows
from tests.support.bench import Bench
from tests.support.factories import failure, unique_id
from tests.support.old import age, settle, sweep
from tests.support.words import BODY_BYTES, CODEC, fill


def found(db: Database, text: str) -> set[str]:
    """Return the messages that have these words, whichever way it is asked."""
    wanted = Selection(words=text)
    chunk = find_chunk(db, wanted, 0)
    by_chunk = set(chunk.unique_ids) if chunk else set()
    listed = list_messages(db, wanted, Order(), PageRequest(number=1, size=50), CODEC)
    assert {each.unique_message_id for each in listed.items} == by_chunk
    assert count_matches(db, wanted) == len(by_chunk) == listed.total
    return by_chunk


def has(db: Database, text: str) -> bool:
    """Say whether the only message has these words."""
    return found(db, text) != set()


def keep(db: Database, body: bytes | str = b"", **changes: object) -> Failure:
    """Store a failure with this body, and read its words."""
    failed = failure(body=body.encode() if isinstance(body, str) else body, **changes)
    record(db, failed)
    fill(db)
    return failed


BODY = json.dumps(
    {
        "order": "A-4711",
        "by": "Ada.Lovelace+shop@example.com",
        "id": "3F2504E0-4F89-41D3-9A0C-0305E82C3301",
        "path": "/var/spool/orders/2026.csv",
        "type": "Shop.Orders.OrderPlaced, Shop",
        "text": "Die Straße von Zürich\nis CLOSED",
        "greek": "ΟΔΟΣ",
        "japanese": "東京都庁",
        "amount": 12.5,
        "odd": "it's 100% 'quoted' \\ &amp; <b> NEAR far",
    }
)
FOUND = (
    *("A-4711", "a-4711", "4711", '"A 4711"', "a 4711", "471*", "A-47*", "order=A-4711"),
    *("Ada.Lovelace+shop@example.com", "example.com", "lovelace", "ada.love*"),
    *("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "3F2504E0", "0305E82C3301"),
    *("/var/spool/orders/2026.csv", "spool/orders", "2026.csv", "orders/*"),
    *("Shop.Orders.OrderPlaced", "shop.orders", "OrderPlaced", "orderpl*"),
    *("straße", "zürich", "Zu\u0308rich", "Zürich is", '"von Zürich is"', "closed", "οδος"),
    *("東京", "都庁", "東*", "12.5", "it's", "100%", "'quoted'", "near", "NEAR", "NEAR far"),
    *("north", "Shop.OutOfStock", "nothing left", "Stock.Take", '"nothing left"', "orders"),
    *(
        '"A-4711',
        '"closed"*',
        "4711 zürich closed north",
        "-4711",
        "4711 ???",
        ":4711&",
        "(4711)",
        "a " * 500,
    ),
)
NOT_FOUND = (
    *("471", "A-471", "lace", "Q-4711", "4711 Q", '"4711 A"', '"zürich closed"', "orderplace"),
    *("", " ", "*", '"', '""', "'", ":", "&", "|", "!", "(", ")", "\\", "-", "???", '"*', "\x00"),
    *("NEAR naught", "4711 AND q", "NOT 4711", "strasse", "京東", "x" * 900, "a q " * 500),
    *("A\x004711x", "\ud800x", "4711:Q", "words:4711", '4711" OR "q', "'; DROP TABLE causes; --"),
)


class TestWhatIsFound:
    """One table of cases, for both databases."""

    @pytest.fixture
    def kept(self, database: Database) -> Database:
        keep(database, BODY)
        return database

    def test_is_the_message_with_all_the_words(self, kept: Database) -> None:
        assert [text for text in FOUND if not has(kept, text)] == []

    def test_is_nothing_without_one_of_them(self, kept: Database) -> None:
        assert [text for text in NOT_FOUND if has(kept, text)] == []


class TestWords:
    def test_are_those_of_the_failure_that_is_shown(self, database: Database) -> None:
        first = keep(database, exception_message="once")

        record(database, again(first, exception_message="twice"))
        fill(database)

        assert [has(database, each) for each in ("once", "twice")] == [False, True]

    def test_are_deleted_with_their_message(self, database: Database) -> None:
        bench = Bench(database)
        first = keep(database, "one")
        keep(database, "two")
        settle(database, Act.RESOLVE, [unique_id(first)])
        age(database, 11, unique_id(first))

        sweep(bench)

        assert [has(database, each) for each in ("one", "two")] == [False, True]
        assert len(rows(database, message_words)) == 1

    def test_of_no_message_are_told_by_the_check(self, database: Database) -> None:
        keep(database, "one")
        with database.engine.begin() as conn:
            conn.execute(insert(message_words).values(number=999, seq=1, words=["stray"]))

        broken = [(each.rule, each.broken) for each in verify_store(database).rules if each.broken]

        assert broken == [("words are of a message that is there", 1)]

    @pytest.mark.parametrize("packed", ["gzip", "GZIP "])
    def test_of_a_packed_body_are_those_that_come_out(
        self, database: Database, packed: str
    ) -> None:
        keep(database, gzip.compress(b"unpacked already"), headers={"Content-Encoding": packed})

        assert has(database, "unpacked already")

    def test_of_a_body_that_is_no_text_are_none(self, database: Database) -> None:
        keep(database, b"\x00\x01hidden\xff\xfe")
        keep(database, bytes(range(128, 256)) * 10 + b" hidden ")

        assert not has(database, "hidden")

    def test_of_a_text_with_bad_bytes_are_the_others(self, database: Database) -> None:
        keep(database, b"the order \xff is here and stays where it is")

        assert has(database, "order is here")

    def test_are_read_in_the_charset_of_the_body(self, database: Database) -> None:
        keep(database, "für Käse".encode("utf-16"), content_type="text/plain; charset=utf-16")

        assert has(database, "käse")

    def test_are_read_in_the_charset_that_xml_declares(self, database: Database) -> None:
        text = '<?xml version="1.0" encoding="ISO-8859-1"?><a>Käse</a>'
        keep(database, text.encode("latin-1"), content_type="text/xml")

        assert has(database, "käse")

    def test_mean_the_characters_that_json_and_xml_write_otherwise(
        self, database: Database
    ) -> None:
        keep(database, r'{"a": "K\u00e4se\nund \ud83d\ude00 Brot"}')
        keep(database, "<a>Tr&auml;ume &amp; Sch&#228;ume</a>")

        assert [len(found(database, each)) for each in ("käse und brot", "träume schäume")] == [
            1,
            1,
        ]

    def test_stand_in_the_first_bytes_of_a_body(self, database: Database) -> None:
        keep(database, b"near " + b"x" * BODY_BYTES + b" far")

        assert [has(database, each) for each in ("near", "far")] == [True, False]

    def test_of_large_and_deep_bodies_do_no_harm(self, database: Database) -> None:
        keep(database, b"large " + b"y " * 2_500_000)
        keep(database, b'{"deep": ' + b"[" * 60_000)
        keep(
            database,
            gzip.compress(b"bomb " + b"\x20" * 50_000_000),
            headers={"Content-Encoding": "gzip"},
        )

        assert [len(found(database, each)) for each in ("large y", "deep", "bomb")] == [1, 1, 1]

    def test_that_stand_too_often_are_left_out_behind_a_bound(self, database: Database) -> None:
        keep(database, "again " * 300 + "last again end")

        assert [has(database, each) for each in ("last", '"again last"', '"last end"')] == [
            *(True, False, False)
        ]

    def test_do_not_reach_from_one_text_into_another(self, database: Database) -> None:
        keep(database, "body", headers={"a": "one", "b": "two"})

        assert [has(database, each) for each in ("one two", '"one two"')] == [True, False]


class TestReading:
    def test_begins_with_what_comes_and_goes_on_with_what_was_there(
        self, database: Database
    ) -> None:
        record(database, failure(body=b"before"))
        last = look_at_numbers(database).last
        assert fill_words(database, last, CODEC, BODY_BYTES) == 0
        record(database, failure(body=b"after"))
        last = look_at_numbers(database).last

        fill_words(database, last, CODEC, BODY_BYTES)
        assert [has(database, each) for each in ("before", "after")] == [False, True]
        fill_words(database, last, CODEC, BODY_BYTES)

        assert has(database, "before")
        assert fill_words(database, last, CODEC, BODY_BYTES) is None

    def test_takes_chunks_until_nothing_is_left(self, database: Database) -> None:
        record(database, *(failure(body=b"chunk") for _ in range(words.MOST_AT_ONCE + 3)))

        assert fill(database) == words.MOST_AT_ONCE + 3
        assert count_matches(database, Selection(words="chunk")) == words.MOST_AT_ONCE + 3

    def test_takes_few_large_messages_at_once(self, database: Database) -> None:
        fill(database)
        large = words.MOST_BYTES // 2
        record(database, *(failure(body=b"a" * large) for _ in range(3)))

        chunk = find_unread(database, look_at_numbers(database).last)

        assert chunk is not None
        assert len(chunk.shown) == 1

    def test_writes_nothing_of_a_message_that_has_failed_again(self, database: Database) -> None:
        first = failure(exception_message="once")
        record(database, first)
        fill_words(database, 0, CODEC, BODY_BYTES)
        chunk = find_unread(database, 0)
        assert chunk is not None
        (number,) = chunk.shown
        record(database, again(first, exception_message="twice"))

        assert write_words(database, chunk, {number: ["once"]}) == 0
        fill(database)

        assert [has(database, each) for each in ("once", "twice")] == [False, True]

    def test_writes_nothing_of_a_message_that_is_deleted(self, database: Database) -> None:
        bench = Bench(database)
        (gone,) = bench.fail()
        fill_words(database, 0, CODEC, BODY_BYTES)
        chunk = find_unread(database, 0)
        assert chunk is not None
        settle(database, Act.RESOLVE, [gone])
        age(database, 11)
        sweep(bench)

        assert write_words(database, chunk, {each: ["gone"] for each in chunk.shown}) == 0
        assert rows(database, message_words) == []

    def test_writes_a_chunk_once(self, database: Database) -> None:
        record(database, failure())
        fill_words(database, 0, CODEC, BODY_BYTES)
        chunk = find_unread(database, 0)
        assert chunk is not None

        written = [
            write_words(database, chunk, {each: ["w"] for each in chunk.shown}) for _ in "12"
        ]

        assert written == [1, 0]

    def test_passes_attempts_that_no_message_shows(self, database: Database) -> None:
        fill(database)
        first = failure()
        record(database, first)
        record(database, again(first))

        assert fill(database) == 1

    def test_goes_on_where_it_was(self, database: Database) -> None:
        keep(database, "old")
        record(database, failure(body=b"new"))

        assert fill(database) == 1

    @pytest.mark.parametrize(
        "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
    )
    def test_waits_for_who_has_taken_a_number(self, database: Database) -> None:
        with database.engine.connect() as other:
            other.execute(select(attempt_number.next_value()))
            during = look_at_numbers(database)
        after = look_at_numbers(database)

        assert len(during.writers) == 1
        assert (after.last, after.writers) == (during.last, frozenset())


class TestLag:
    def test_is_none_before_words_were_wanted(self, database: Database) -> None:
        record(database, failure())

        assert get_lag(database) is None

    def test_counts_what_came_and_what_was_there(self, database: Database) -> None:
        record(database, failure(), failure())
        fill_words(database, look_at_numbers(database).last, CODEC, BODY_BYTES)
        record(database, failure())

        lag = get_lag(database)

        assert lag is not None
        assert (lag.waiting, lag.backlog, lag.seconds > 0) == (1, 2, True)

    def test_is_nothing_when_all_is_read(self, database: Database) -> None:
        keep(database, "x")

        lag = get_lag(database)

        assert lag is not None
        assert (lag.waiting, lag.backlog, lag.seconds) == (0, 0, 0.0)


def frozen(db: Database, most: int) -> Selection:
    wanted = Selection(words="north", queue="orders")
    return db.read(lambda tx: freeze_words(tx, wanted, most=most))


class TestAnActByWords:
    def test_is_of_the_messages_that_have_them(self, database: Database) -> None:
        ids = [unique_id(keep(database)) for _ in range(2)]
        keep(database, queue="others")

        assert frozen(database, most=2) == Selection(ids=tuple(ids))

    def test_is_refused_where_they_are_too_many(self, database: Database) -> None:
        for _ in range(3):
            keep(database)

        with pytest.raises(TooManyFound, match="More than 2 messages have these words"):
            frozen(database, most=2)

    def test_is_of_the_first_of_them_where_it_has_a_limit(self, database: Database) -> None:
        first, *_ = [unique_id(keep(database)) for _ in range(3)]
        wanted = Selection(words="north")

        found = database.read(lambda tx: freeze_words(tx, wanted, limit=1, most=1))

        assert found == Selection(ids=(first,))

    def test_may_be_of_none(self, database: Database) -> None:
        assert frozen(database, most=2) == Selection(ids=())


class TestBeginnings:
    def test_are_looked_for_where_nothing_else_is_found(self, database: Database) -> None:
        keep(database, "TimeoutException")

        found = search(database, "timeout", find_ways("timeout", (), full_text=True)).ways

        assert [(each.way.by, each.count) for each in found] == [(By.BEGINNINGS, 1)]

    def test_are_not_looked_for_beside_whole_words(self, database: Database) -> None:
        keep(database, "TimeoutException")
        keep(database, "timeout")

        found = search(database, "timeout", find_ways("timeout", (), full_text=True)).ways

        assert [(each.way.by, each.count) for each in found] == [(By.WORDS, 1)]


class TestACount:
    def test_ends_at_its_bound(self, database: Database) -> None:
        for _ in range(3):
            keep(database)
        ways = list(find_ways("north", (), full_text=True))

        found = [search(database, "north", ways, most).ways[0] for most in (2, 3)]

        assert [(each.count, each.more) for each in found] == [(2, True), (3, False)]


class TestAPlan:
    def test_takes_no_words_that_were_written_after_it(self, database: Database) -> None:
        keep(database, "counted")
        counted_to = selections.last_number(database)
        keep(database, "counted later")
        with database.engine.begin() as conn:
            # As if both had failed before the preview.
            conn.execute(update(word_progress).values(newest=0))

        bounded = Selection(words="counted", counted_to=counted_to)

        assert count_matches(database, bounded) == 1
