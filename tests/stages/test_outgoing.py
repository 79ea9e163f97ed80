"""Copies of failures go to the log queue: at least once, in order, and nothing keeps them all."""

from collections.abc import Callable
from typing import Any

import pytest

from retrier.domain import headers
from retrier.domain.wire import ChannelClosed, Outgoing, Refused, Unknown
from retrier.errors import DatabaseUnavailable, LeaseLost
from retrier.processor.outgoing import LOOK
from retrier.store.engine.database import Database
from tests.support.bench import Killed
from tests.support.factories import raw_properties
from tests.support.outbox import LOG, MOST_TURNS, Outbox
from tests.support.raw_messages import raw_properties as amqp_properties
from tests.support.script import to_queue
from tests.support.scripted_connections import ScriptedPublisher


@pytest.fixture
def outbox(database: Database) -> Outbox:
    return Outbox(database)


def with_id(unique_message_id: str) -> Callable[[Outgoing], bool]:
    return lambda message: unique_message_id.encode() in message.raw


class TestACopy:
    def test_has_the_bytes_of_the_failure_and_the_id_of_its_message(self, outbox: Outbox) -> None:
        came = amqp_properties({"Shop.Tenant": "north", "Retrier.Reason": "x"}, delivery_mode=2)
        (key,) = outbox.fail(raw=came, body=b"\x00\xff")

        outbox.work()

        (sent,) = outbox.transport.broker.holds(LOG)
        stamped = amqp_properties(
            {"Shop.Tenant": "north", "Retrier.Reason": "x", headers.LOGGED_ID: key},
            delivery_mode=2,
        )
        assert (sent.raw, sent.body) == (stamped, b"\x00\xff")

    def test_is_persistent(self, outbox: Outbox) -> None:
        outbox.fail(raw=amqp_properties({}, delivery_mode=1))

        outbox.work()

        (sent,) = outbox.transport.broker.holds(LOG)
        assert outbox.transport.codec.read(sent.raw).fields["delivery_mode"] == 2

    def test_leaves_out_what_would_copy_it_expire_it_or_have_it_refused(
        self, outbox: Outbox
    ) -> None:
        fans_out = {"CC": "elsewhere", "BCC": "elsewhere", "Shop.Tenant": "north"}
        outbox.fail(raw=amqp_properties(fans_out, expiration="1", user_id="somebody"))

        outbox.work()

        (sent,) = outbox.transport.broker.holds(LOG)
        read = outbox.transport.codec.read(sent.raw)
        assert set(read.headers) == {"Shop.Tenant", headers.LOGGED_ID}
        assert set(read.fields) == {"delivery_mode"}

    def test_keeps_the_id_that_a_retry_wrote(self, outbox: Outbox) -> None:
        outbox.fail(raw=raw_properties({headers.UNIQUE_MESSAGE_ID: "as it came"}))

        outbox.work()

        (sent,) = outbox.transport.broker.holds(LOG)
        read = outbox.transport.codec.read(sent.raw)
        assert read.text(headers.UNIQUE_MESSAGE_ID) == "as it came"


def test_copies_go_in_order_window_by_window_and_nothing_is_left(database: Database) -> None:
    outbox = Outbox(database, window=2)
    ids = outbox.fail(5)

    outbox.work()

    assert outbox.logged() == ids
    assert outbox.rows() == []


def test_a_window_is_bounded_by_bytes_and_holds_one_copy_at_least(database: Database) -> None:
    outbox = Outbox(database, window_bytes=1000)
    outbox.fail(2, body=b"x" * 900)

    assert outbox.turn() == 0
    assert len(outbox.logged()) == 1
    outbox.work()
    assert len(outbox.logged()) == 2


def test_without_anything_to_send_there_is_no_connection(outbox: Outbox) -> None:
    outbox.work()

    assert outbox.transport.connected() == 0


class TestKilled:
    def test_between_the_confirm_and_the_record_it_sends_again(self, outbox: Outbox) -> None:
        ids = outbox.fail(3)

        def die() -> None:
            raise Killed

        outbox.on_published = die
        with pytest.raises(Killed):
            outbox.turn()
        outbox.on_published = lambda: None
        outbox.start()
        outbox.work()

        assert outbox.logged() == ids * 2
        assert outbox.rows() == []


class TestAQueueThatIsMissing:
    def test_keeps_what_waits_for_it_and_is_tried_again(self, outbox: Outbox) -> None:
        outbox.transport.broker.delete(LOG)
        ids = outbox.fail(3)
        outbox.work(20)
        assert len(outbox.rows()) == 3

        outbox.transport.broker.declare(LOG)
        outbox.clock.advance(60)
        outbox.work()

        assert outbox.logged() == ids
        assert outbox.rows() == []

    def test_is_named_where_the_service_says_how_it_is_until_it_is_back(
        self, outbox: Outbox
    ) -> None:
        outbox.transport.broker.delete(LOG)
        outbox.fail(3)
        outbox.work(20)

        ready, words = outbox.sender.describe()

        assert ready
        assert words.startswith(f"nothing can be sent to {LOG}: ")
        outbox.transport.broker.declare(LOG)
        outbox.clock.advance(60)
        outbox.work()
        assert outbox.sender.describe() == (True, "sending")

    def test_is_named_once_and_once_more_when_it_is_back(self, outbox: Outbox) -> None:
        outbox.transport.broker.delete(LOG)
        outbox.fail(3)
        outbox.work(20)
        outbox.transport.broker.declare(LOG)
        outbox.clock.advance(60)
        outbox.work()

        assert outbox.told.names == ["outgoing.queue_failed", "outgoing.queue_recovered"]
        assert outbox.told.of("outgoing.queue_failed")[0]["queue"] == LOG

    def test_is_tried_ever_more_seldom(self, outbox: Outbox) -> None:
        outbox.transport.broker.delete(LOG)
        outbox.fail(3)
        began = outbox.clock.monotonic()
        sizes: list[int] = []
        outbox.transport.after_call = lambda name: sizes.append(name == "publisher.publish")

        outbox.work(MOST_TURNS)

        # 1, 2, 5, 10 and 30 s, then each minute
        assert sum(sizes) < 7 + (outbox.clock.monotonic() - began) / 60

    def test_does_not_keep_what_goes_to_another(self, outbox: Outbox) -> None:
        outbox.transport.broker.declare("other")
        outbox.fail(3, queue="missing")
        (key,) = outbox.fail(1, queue="other")

        outbox.work(20)

        assert outbox.logged("other") == [key]


class TestACopyThatIsRefused:
    def test_waits_and_the_others_go(self, outbox: Outbox) -> None:
        bad, *good = outbox.fail(4)
        outbox.transport.cue(Refused("too large"), when=with_id(bad), times=None)

        outbox.work()

        assert outbox.logged() == good
        assert [row["reason"] for row in outbox.rows()] == ["too large"]
        assert outbox.told.names == ["outgoing.put_off"]

    def test_is_tried_again_and_named_once(self, outbox: Outbox) -> None:
        (bad,) = outbox.fail(1)
        outbox.transport.cue(Refused("too large"), when=with_id(bad), times=2)
        outbox.work()
        outbox.end_waits()
        outbox.clock.advance(60)
        outbox.work()
        outbox.end_waits()
        outbox.clock.advance(60)
        outbox.work()

        assert outbox.logged() == [bad]
        assert outbox.told.of("outgoing.put_off") == [
            {"queue": LOG, "count": 1, "reason": "too large"}
        ]

    def test_alone_again_and_again_lets_those_behind_it_pass(self, database: Database) -> None:
        """A window of one, because of its size: the next one has to go all the same."""
        outbox = Outbox(database, window_bytes=1)
        bad, good = outbox.fail(2)
        outbox.transport.cue(Refused("too large"), when=with_id(bad), times=None)

        outbox.work(10)

        assert outbox.logged() == [good]

    def test_by_closing_the_channel_is_found_by_sending_one_by_one(self, outbox: Outbox) -> None:
        ids = outbox.fail(5)
        closed = ChannelClosed("406 user_id")
        outbox.transport.cue(closed, when=with_id(ids[2]), times=None)

        outbox.work(20)

        assert sorted(set(outbox.logged())) == sorted({*ids} - {ids[2]})
        assert [row["reason"] for row in outbox.rows()] == ["406 user_id"]


def test_a_full_queue_is_named_and_keeps_the_order(outbox: Outbox) -> None:
    ids = outbox.fail(3)
    outbox.transport.cue(Refused("full"), when=to_queue(LOG), times=3)

    outbox.work(20)
    outbox.clock.advance(60)
    outbox.work()

    assert outbox.logged() == ids
    assert outbox.told.names == ["outgoing.queue_failed", "outgoing.queue_recovered"]


class TestABrokerThatIsAway:
    def test_is_waited_for_and_named_once(self, outbox: Outbox) -> None:
        ids = outbox.fail(2)
        outbox.transport.go_down()
        outbox.work(10)
        outbox.transport.come_up()

        outbox.work()

        assert outbox.logged() == ids
        assert outbox.told.names == ["outgoing.paused", "outgoing.resumed"]

    def test_in_the_middle_leaves_what_it_did_not_confirm(self, outbox: Outbox) -> None:
        ids = outbox.fail(3)
        lost = Unknown("connection reset")
        outbox.transport.cue(lost, when=with_id(ids[1]), settled=1)

        outbox.work()

        assert set(outbox.logged()) == {*ids}
        assert outbox.rows() == []


def test_a_database_that_is_away_is_waited_for(outbox: Outbox) -> None:
    (key,) = outbox.fail(1)
    real = outbox.db.read
    outbox.db.read = fail_with(DatabaseUnavailable("away"))  # type: ignore[method-assign]
    assert outbox.turn() == 1.0
    outbox.db.read = real  # type: ignore[method-assign]

    outbox.work()

    assert outbox.logged() == [key]
    assert outbox.told.names == ["outgoing.paused", "outgoing.resumed"]


def fail_with(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


class TestTheLease:
    def test_is_needed(self, outbox: Outbox) -> None:
        outbox.fail(1)
        outbox.start(host="there")
        outbox.start(host="here")

        assert outbox.turn() == LOOK
        assert len(outbox.rows()) == 1

    def test_that_was_lost_unnoticed_is_noticed_before_anything_is_sent(
        self, outbox: Outbox
    ) -> None:
        outbox.fail(1)
        frozen = outbox.sender
        outbox.start(host="there")
        outbox.clock.advance(20)

        assert frozen._turn() == LOOK  # noqa: SLF001 - one turn of the loop, without its thread

        assert outbox.logged() == []
        assert outbox.transport.connected(ScriptedPublisher) == 0

    def test_that_is_lost_ends_the_wait_for_a_broker(self, outbox: Outbox) -> None:
        outbox.fail(1)
        outbox.lease.lose()

        with pytest.raises(LeaseLost):
            outbox.sender._wait_on()  # noqa: SLF001 - what the publisher calls while it waits


def test_a_stop_ends_the_wait_for_a_broker_and_the_rows_stay(outbox: Outbox) -> None:
    outbox.fail(1)
    outbox.transport.before_call = lambda name: outbox.stop.set() if "publish" in name else None

    outbox.sender.run()

    assert outbox.transport.connected() == 0
