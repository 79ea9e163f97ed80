"""Forwarding: windows go out, and what the broker says of each message decides what becomes of it."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, update

from retrier.domain.wire import ChannelClosed, Refused, Returned, Unknown
from retrier.store.engine.database import Database
from retrier.store.schema import event_log, processor_lease
from tests.support.amqp_bytes import NO_PROPERTIES
from tests.support.bench import ERROR_QUEUE, QUEUE, STAGING, Bench, Killed
from tests.support.factories import failure, raw_properties
from tests.support.script import to_queue
from tests.support.staged import is_marker, of_message, put_again


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=2)


def times_sent(bench: Bench) -> Counter[str]:
    return Counter(bench.sent())


def sent_twice(bench: Bench) -> set[str]:
    return {key for key, times in times_sent(bench).items() if times > 1}


def note_windows(bench: Bench) -> list[str]:
    windows: list[str] = []
    bench.crash_at = lambda point: (
        windows.append(point) if point == "forwarding.published" else None
    )
    return windows


def test_a_batch_staged_here_is_counted_and_needs_no_marker(bench: Bench) -> None:
    bench.fail(3)

    bench.ask_all()
    bench.work()

    assert not any(map(is_marker, bench.transport.published))


def test_a_batch_goes_out_in_windows(bench: Bench) -> None:
    ids = bench.fail(5)
    windows = note_windows(bench)

    bench.ask_all()
    bench.work()

    assert bench.sent() == ids
    assert len(windows) == 3


def test_a_window_ends_before_its_bytes_are_too_many(database: Database) -> None:
    bench = Bench(database, window=10, window_bytes=100)
    for number in range(5):
        bench.fail(body=b"%d" % number * 40, raw=NO_PROPERTIES)
    windows = note_windows(bench)

    bench.ask_all()
    bench.work()

    assert len(windows) == 3


def test_the_bytes_of_properties_count_as_those_of_bodies(database: Database) -> None:
    bench = Bench(database, window=10, window_bytes=100)
    for _ in range(5):
        bench.fail(body=b"x", raw=raw_properties({"k": "x" * 30}))
    windows = note_windows(bench)

    bench.ask_all()
    bench.work()

    assert len(windows) == 3


def test_a_body_larger_than_a_window_goes_alone(database: Database) -> None:
    bench = Bench(database, window=10, window_bytes=100)
    few = {"raw": NO_PROPERTIES, "body": b"x"}
    ids = [*bench.fail(**few), *bench.fail(body=b"x" * 101), *bench.fail(**few)]
    windows = note_windows(bench)

    bench.ask_all()
    bench.work()

    assert bench.sent() == ids
    assert len(windows) == 3


def test_a_refused_message_is_unresolved_again_with_the_brokers_words(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.transport.cue(Refused("queue is full"), when=of_message(ids[1], QUEUE))

    operation = bench.ask_all()
    bench.work()

    assert bench.sent() == [ids[0], ids[2]]
    assert "queue is full" in bench.message(ids[1])["disposition_reason"]
    assert bench.operation(operation)["failed"] == 1


def test_a_reverted_message_has_no_claim_and_can_be_asked_for_again(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE))
    bench.ask([unique_id])
    bench.work()

    assert bench.claims() == {}
    bench.ask([unique_id])
    bench.work()

    assert bench.sent() == [unique_id]


def test_what_comes_back_in_one_window_is_one_line_of_the_log(bench: Bench) -> None:
    ids = bench.fail(2)
    bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=2)

    bench.ask_all()
    bench.work()

    (line,) = bench.told.of("message.reverted")
    assert (line["destination"], line["count"], line["unique_message_id"]) == (QUEUE, 2, ids[0])
    assert "queue is full" in str(line["reason"])


def test_what_came_back_after_the_first_window_is_told_within_the_minute(bench: Bench) -> None:
    bench.fail(5)
    bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=5)
    bench.ask_all()
    bench.work()

    bench.clock.advance(60)
    bench.take_turn()

    assert [line["count"] for line in bench.told.of("message.reverted")] == [2, 3]


def test_what_came_back_is_told_before_the_process_stops(bench: Bench) -> None:
    bench.fail(5)
    bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=5)
    bench.ask_all()
    bench.work()

    bench.stop()

    assert [line["count"] for line in bench.told.of("message.reverted")] == [2, 3]


def test_a_message_that_closes_the_channel_is_found_and_reverted(bench: Bench) -> None:
    ids = bench.fail(5)
    poison = of_message(ids[3], QUEUE)
    bench.transport.cue(ChannelClosed("406 too large"), when=poison, times=None)

    operation = bench.ask_all()
    bench.work()

    assert set(bench.sent()) == {ids[0], ids[1], ids[2], ids[4]}
    assert "406 too large" in bench.message(ids[3])["disposition_reason"]
    row = bench.operation(operation)
    assert (row["state"], row["forwarded"], row["failed"]) == ("completed", 4, 1)


def test_a_closed_channel_doubles_only_its_own_window_and_once(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.transport.cue(ChannelClosed("406"), when=of_message(ids[3], QUEUE), times=None)

    bench.ask_all()
    bench.work()

    assert sent_twice(bench) == {ids[2]}
    assert max(times_sent(bench).values()) == 2


def test_what_was_confirmed_before_the_channel_closed_is_not_doubled(bench: Bench) -> None:
    ids = bench.fail(2)
    poison = of_message(ids[1], QUEUE)
    bench.transport.cue(ChannelClosed("406"), when=poison, settled=1, times=None)

    bench.ask_all()
    bench.work()

    assert bench.sent() == [ids[0]]


def test_a_message_that_has_its_outcome_is_not_sent_alone(bench: Bench) -> None:
    bench.receive(failure(queue=QUEUE, message_id="1"))
    (first,) = bench.statuses()
    (poison,) = bench.fail()
    bench.transport.cue(ChannelClosed("406"), when=of_message(poison, QUEUE), times=None)
    bench.ask_all()

    # It arrived before the channel was closed, and fails again before it is sent alone.
    bench.at(
        "forwarding.published",
        lambda: bench.receive(failure(queue=QUEUE, message_id="1", retry_id=bench.retry_id(first))),
    )
    bench.work()

    assert bench.sent() == [first]


def test_each_message_sent_alone_is_recorded_before_the_next(bench: Bench) -> None:
    ids = bench.fail(2)
    bench.transport.cue(ChannelClosed("406"), when=to_queue(QUEUE))
    bench.ask_all()

    recorded: list[bool] = []
    when_second = of_message(ids[1], QUEUE)
    bench.transport.cue(
        Refused("no"),
        when=lambda message: (
            when_second(message)
            and not recorded.append(bool(bench.claims()[ids[0]]["forwarded_at"]))
        ),
    )
    bench.work()

    assert recorded == [True]


def test_a_lost_connection_doubles_only_what_is_in_doubt(bench: Bench) -> None:
    ids = bench.fail(6)
    in_doubt = of_message(ids[3], QUEUE)
    bench.transport.cue(Unknown("reset"), when=in_doubt, settled=1, stored=True)

    operation = bench.ask_all()
    bench.work()

    assert set(bench.sent()) == set(ids)
    assert sent_twice(bench) == {ids[3]}
    assert bench.operation(operation)["forwarded"] == 6


@pytest.mark.parametrize("refusal", [Returned("NO_ROUTE"), Refused("full")])
def test_a_message_in_doubt_that_is_refused_now_says_it_may_have_arrived(
    bench: Bench, refusal: Returned | Refused
) -> None:
    # Given a message that was sent, and whose connection broke before its confirm
    (unique_id,) = bench.fail(1)
    message = of_message(unique_id, QUEUE)
    bench.transport.cue(Unknown("reset"), when=message, stored=True)
    bench.transport.cue(refusal, when=message)

    bench.ask_all()
    bench.work()

    # Then it is unresolved again, and whoever retries it by hand is warned
    row = bench.message(unique_id)
    assert row["status"] == "unresolved"
    assert "may have arrived" in row["disposition_reason"]


def test_a_message_never_sent_before_does_not_claim_to_have_arrived(bench: Bench) -> None:
    (unique_id,) = bench.fail(1)
    bench.transport.cue(Refused("full"), when=of_message(unique_id, QUEUE))

    bench.ask_all()
    bench.work()

    assert "may have arrived" not in bench.message(unique_id)["disposition_reason"]


def test_a_message_that_breaks_every_connection_is_found_and_reverted(bench: Bench) -> None:
    ids = bench.fail(6)
    bench.transport.cue(Unknown("reset"), when=of_message(ids[3], QUEUE), times=None)

    operation = bench.ask_all()
    bench.work()

    row = bench.operation(operation)
    assert set(bench.sent()) == {*ids} - {ids[3]}
    assert sent_twice(bench) == {ids[2]}
    assert "may have arrived" in bench.message(ids[3])["disposition_reason"]
    assert (row["state"], row["forwarded"], row["failed"]) == ("completed", 5, 1)


def test_a_message_may_meet_two_lost_connections_and_still_go(bench: Bench) -> None:
    ids = bench.fail(4)
    bench.transport.cue(Unknown("reset"), when=of_message(ids[1], QUEUE), times=3)

    bench.ask_all()
    bench.work()

    assert set(bench.sent()) == set(ids)


def test_what_a_crash_left_in_doubt_goes_one_by_one(bench: Bench) -> None:
    bench.fail(4)
    bench.ask_all()
    bench.kill_at("forwarding.published")
    with pytest.raises(Killed):
        bench.work()
    bench.restart()

    bench.kill_at("forwarding.sent_alone")
    with pytest.raises(Killed):
        bench.work()
    bench.restart()
    bench.work()

    # Two crashes, and only the first of them has doubled a whole window.
    assert sorted(times_sent(bench).values()) == [1, 1, 2, 3]


def test_what_a_crash_left_in_doubt_is_told_once_with_its_number(bench: Bench) -> None:
    bench.fail(4)
    bench.ask_all()
    bench.kill_at("forwarding.published")
    with pytest.raises(Killed):
        bench.work()
    stamped = len(bench.in_doubt())
    bench.restart()

    bench.work()

    (told,) = bench.told.of("batch.sent_again")
    (entry,) = bench.rows(select(event_log).where(event_log.c.kind == "sent_again"))
    assert told["count"] == entry["details"]["count"] == stamped > 1
    assert told["batch_id"] == entry["batch_id"]


def test_without_a_doubt_nothing_is_told_of_one(bench: Bench) -> None:
    bench.fail(4)
    bench.ask_all()

    bench.work()

    assert bench.told.of("batch.sent_again") == []
    assert bench.rows(select(event_log).where(event_log.c.kind == "sent_again")) == []


def test_after_a_lost_connection_a_marker_ends_the_batch(bench: Bench) -> None:
    bench.fail(3)
    bench.transport.cue(Unknown("reset"), when=to_queue(QUEUE))

    bench.ask_all()
    bench.work()

    assert sum(map(is_marker, bench.transport.published)) == 1


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_copy_that_is_there_twice_is_sent_once(bench: Bench, count: int) -> None:
    ids = bench.fail(count)
    bench.ask_all()

    def double_all() -> None:
        for copy in bench.transport.broker.holds(STAGING):
            put_again(bench, copy)

    bench.at("staging.committed", double_all)
    bench.work()

    assert bench.sent() == ids


def test_a_message_that_fails_again_before_it_is_recorded_counts_once(bench: Bench) -> None:
    (unique_id,) = bench.fail(message_id="7")
    operation = bench.ask([unique_id])

    bench.at(
        "forwarding.published",
        lambda: bench.receive(
            failure(queue=QUEUE, message_id="7", retry_id=bench.retry_id(unique_id))
        ),
    )
    bench.work()

    row = bench.operation(operation)
    assert bench.statuses() == {unique_id: "unresolved"}
    assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 1, 0)
    assert bench.claims() == {}


def test_a_confirmation_before_the_recording_counts_once(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    operation = bench.ask([unique_id])

    bench.at("forwarding.published", lambda: bench.confirm(unique_id))
    bench.work()

    row = bench.operation(operation)
    assert bench.statuses() == {unique_id: "resolved"}
    assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 1, 0)


def test_an_outcome_after_the_recording_is_not_counted_again(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    operation = bench.ask([unique_id])
    bench.work()

    bench.confirm(unique_id)

    assert bench.operation(operation)["forwarded"] == 1


def test_a_message_whose_claim_is_gone_is_acked_unsent(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.ask_all()

    bench.at("staging.committed", lambda: bench.confirm(ids[1]))
    bench.work()

    assert bench.sent() == [ids[0], ids[2]]
    assert bench.transport.broker.holds(STAGING) == []


def test_a_message_put_aside_after_staging_is_not_sent(bench: Bench) -> None:
    ids = bench.fail(3)
    operation = bench.ask_all()

    bench.at("staging.committed", lambda: bench.set_status(ids[1], "archived"))
    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == [ids[0], ids[2]]
    assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 2, 1)


def test_a_kill_after_a_message_was_taken_back_sends_it_no_more(bench: Bench) -> None:
    # Given a message that was refused and taken back, and a kill before its copy was acked
    ids = bench.fail(3)
    bench.transport.cue(Refused("queue is full"), when=of_message(ids[1], QUEUE))
    operation = bench.ask_all()
    bench.kill_at("forwarding.stamped", time=2)
    with pytest.raises(Killed):
        bench.work()
    assert ids[1] not in bench.claims()

    bench.restart()
    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == [ids[0], ids[2]]
    assert bench.statuses()[ids[1]] == "unresolved"
    assert (row["state"], row["forwarded"], row["failed"]) == ("completed", 2, 1)


def test_a_lease_that_ran_out_and_that_nobody_took_costs_nothing(bench: Bench) -> None:
    ids = bench.fail(4)
    bench.ask_all()

    def run_out() -> None:
        past = datetime(2001, 1, 1, tzinfo=UTC)
        with bench.db.engine.begin() as conn:
            conn.execute(update(processor_lease).values(renewed_at=past, expires_at=past))

    bench.at("forwarding.published", run_out)
    bench.work()

    assert bench.sent() == ids
    assert "processor.lease_lost" not in bench.told.names


def test_a_retry_goes_without_what_its_error_queue_drops(database: Database) -> None:
    bench = Bench(database, drop_headers={ERROR_QUEUE: ("x-retry-count",), "dead": ("x-tenant",)})
    bench.fail(raw=raw_properties({"x-retry-count": "3", "x-tenant": "a"}))

    bench.ask_all()
    bench.work()

    (lying,) = bench.transport.broker.holds(QUEUE)
    left = bench.transport.codec.read(lying.raw).headers
    assert "x-retry-count" not in left
    assert left["x-tenant"] == "a"
