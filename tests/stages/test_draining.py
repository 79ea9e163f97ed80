"""The end of a batch: counted, marked, or given up by the staging queue. Nothing hangs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from retrier.domain import headers
from retrier.domain.wire import Delivery, Edit, Refused, Unknown
from retrier.errors import BrokerUnavailable
from retrier.store.engine.database import Database
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.memory_broker import Subscription
from tests.support.script import to_queue
from tests.support.staged import is_marker, put_again, put_foreign


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=2)


def ask_and_die_staged(bench: Bench, count: int = 5) -> list[str]:
    """Leave a batch in Forwarding to a new process, with all copies in the staging queue."""
    ids = bench.fail(count)
    bench.ask_all()
    bench.kill_at("staging.committed")
    with pytest.raises(Killed):
        bench.work()
    bench.restart()
    return ids


def purge(bench: Bench) -> None:
    bench.transport.broker.queues[STAGING].ready.clear()


def take_turns_until_troubled(bench: Bench) -> None:
    for _ in range(50):
        bench.take_turn()
        if bench.processor.reason is not None:
            return


def stamps(bench: Bench) -> list[tuple[str, str]]:
    """Return staging id and retry id of every copy ever put into the staging queue."""
    codec = bench.transport.codec
    read = [codec.read(each.raw) for each in bench.transport.published if each.queue == STAGING]
    return [
        (str(each.text(headers.STAGING_ID)), str(each.text(headers.RETRY_ID)))
        for each in read
        if each.text(headers.TARGET_ADDRESS)
    ]


def test_after_a_restart_what_comes_before_the_marker_is_forwarded(bench: Bench) -> None:
    ids = ask_and_die_staged(bench)

    bench.work()

    assert bench.sent() == ids
    assert sum(map(is_marker, bench.transport.published)) == 1


def test_a_marker_ends_a_batch_at_once(bench: Bench) -> None:
    ask_and_die_staged(bench)
    before = bench.clock.monotonic()

    while bench.batches():
        bench.take_turn()

    assert bench.clock.monotonic() - before < 1


def test_copies_that_are_gone_before_the_marker_are_staged_anew(bench: Bench) -> None:
    ids = ask_and_die_staged(bench)

    purge(bench)
    bench.work()

    assert sorted(bench.sent()) == sorted(ids)


def test_what_is_staged_anew_keeps_its_retry_id_and_takes_a_new_staging_id(bench: Bench) -> None:
    ask_and_die_staged(bench, count=1)

    purge(bench)
    bench.work()

    (first, first_retry), (second, second_retry) = stamps(bench)
    assert first != second
    assert first_retry == second_retry


def test_a_predecessor_that_holds_the_queue_is_ended_by_deleting_it(bench: Bench) -> None:
    ids = ask_and_die_staged(bench)
    frozen = bench.transport.broker.subscribe(STAGING, 1000)

    bench.work()

    assert frozen.gone is not None
    assert bench.sent() == ids


def test_the_queue_is_not_declared_anew_before_the_pause(database: Database) -> None:
    bench = Bench(database, redeclare_pause=timedelta(seconds=60))
    ask_and_die_staged(bench)
    bench.transport.broker.subscribe(STAGING, 1000)

    def stop_in_the_pause(name: str) -> None:
        if name == "queues.delete":
            bench.context.stop.set()

    bench.transport.after_call = stop_in_the_pause
    bench.processor.run()

    assert STAGING not in bench.transport.broker.queues


def test_a_length_limit_that_drops_the_oldest_copies_loses_and_doubles_nothing(
    bench: Bench,
) -> None:
    # Given a policy that lets the staging queue hold no more than two copies
    ids = bench.fail(7)
    bench.ask_all()

    def drop_head(point: str) -> None:
        if point == "staging.published":
            ready = bench.transport.broker.queues[STAGING].ready
            while len(ready) > 2:
                ready.popleft()

    bench.crash_at = drop_head
    before = bench.clock.monotonic()
    bench.work()

    # Then all go out, two at a time and not at full speed, and each time it is said why
    assert sorted(bench.sent()) == sorted(ids)
    assert (
        bench.clock.monotonic() - before >= 3 * bench.context.retries.drain_timeout.total_seconds()
    )
    reasons = [fields["reason"] for name, fields in bench.told.events if name == "batch.moved"]
    assert [reason.split(" copies")[0] for reason in reasons] == ["5 of 7", "3 of 5", "1 of 3"]
    assert all("did not come back from the staging queue" in reason for reason in reasons)


def test_a_staging_queue_that_is_gone_is_declared_again(bench: Bench) -> None:
    ids = ask_and_die_staged(bench)

    bench.transport.broker.delete(STAGING)
    bench.work()

    assert sorted(bench.sent()) == sorted(ids)


def test_a_staging_queue_deleted_while_it_is_consumed_costs_nothing(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    bench.at("forwarding.published", lambda: bench.transport.broker.delete(STAGING))
    bench.work()

    assert bench.sent() == ids


def test_a_marker_that_is_refused_does_not_stop_the_copies(bench: Bench) -> None:
    ids = ask_and_die_staged(bench)
    bench.transport.cue(Refused("queue is full"), when=is_marker, times=None)

    bench.work()

    assert bench.sent() == ids
    assert bench.batches() == []


def test_a_marker_in_doubt_is_published_again_on_a_new_connection(bench: Bench) -> None:
    ids = ask_and_die_staged(bench)
    bench.transport.cue(Unknown("reset"), when=is_marker, stored=True)

    bench.work()

    assert bench.sent() == ids
    assert sum(map(is_marker, bench.transport.published)) == 2


def test_a_purged_staging_queue_moves_the_rest_after_the_drain_timeout(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    bench.at("staging.committed", lambda: purge(bench))
    bench.work()

    assert bench.sent() == ids
    assert "batch.moved" in bench.told.names


@pytest.mark.parametrize("is_single", [True, False])
def test_a_queue_that_gives_nothing_is_deleted_only_where_one_consumer_has_it(
    bench: Bench, *, is_single: bool
) -> None:
    """SQS makes no queue of the same name for a minute."""
    bench.transport.capabilities = replace(
        bench.transport.capabilities, ordered=is_single, single_consumer=is_single
    )
    ids = bench.fail(5)
    bench.ask_all()

    bench.at("staging.committed", lambda: purge(bench))
    bench.work()

    assert bench.sent() == ids
    assert ("queues.delete" in bench.transport.calls) == is_single


def test_the_rest_is_not_moved_before_the_drain_timeout(database: Database) -> None:
    bench = Bench(database, drain_timeout=timedelta(seconds=2))
    bench.fail(5)
    bench.ask_all()
    bench.at("staging.committed", lambda: purge(bench))

    start = bench.clock.monotonic()
    while "batch.moved" not in bench.told.names:
        bench.take_turn()

    assert 2 <= bench.clock.monotonic() - start < 3


def test_only_what_is_not_recorded_is_staged_anew(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()
    lost = iter(range(100))

    def lose_the_fifth(name: str) -> None:
        if name == "transport.consumer" and next(lost) == 0:
            ready = bench.transport.broker.queues[STAGING].ready
            ready.pop()

    bench.transport.before_call = lose_the_fifth
    bench.work()

    assert bench.sent() == ids
    assert len(stamps(bench)) == 6


def test_garbage_does_not_keep_a_batch_open(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.ask_all()
    bench.at("staging.committed", lambda: purge(bench))

    # Somebody puts something into the staging queue more often than the drain timeout.
    bench.transport.on_idle = lambda seconds: (put_foreign(bench), bench.clock.advance(seconds))
    bench.work()

    assert bench.sent() == ids


def test_garbage_in_the_staging_queue_is_dropped(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    def litter() -> None:
        put_foreign(bench)
        put_foreign(bench, **{headers.STAGING_ID: "not one of ours", headers.NUMBER: "9" * 5000})
        bench.transport.broker.put(STAGING, b"\xff", b"no properties at all")
        for copy in bench.transport.broker.holds(STAGING)[:5]:
            if len(copy.raw) > 100:
                put_again(bench, copy, staging_id="of an attempt that never committed")

    bench.at("staging.committed", litter)
    bench.work()

    assert bench.sent() == ids
    assert bench.batches() == []


def test_copies_that_an_older_version_staged_are_acked_unsent_and_staged_anew(
    bench: Bench,
) -> None:
    """They have no message number, but all properties of their message."""
    ids = ask_and_die_staged(bench)
    older = Edit(drop_headers=headers.NUMBER.__eq__, set_headers={"Retrier.BodySize": "3"})
    copies = bench.transport.broker.holds(STAGING)
    purge(bench)
    for copy in copies:
        bench.transport.broker.put(STAGING, bench.transport.codec.edit(copy.raw, older))

    bench.work()

    assert bench.sent() == ids
    assert len({staging_id for staging_id, _ in stamps(bench)}) == 2
    assert bench.transport.broker.holds(STAGING) == []


def test_a_copy_of_an_earlier_attempt_is_never_the_one_that_is_sent(bench: Bench) -> None:
    bench.transport.broker.declare("before the redirect")
    ids = bench.fail(3)
    bench.ask_all()

    def put_old_ones_in_front() -> None:
        copies = bench.transport.broker.holds(STAGING)
        purge(bench)
        for copy in copies:
            put_again(bench, copy, staging_id="earlier", target="before the redirect")
        for copy in copies:
            put_again(bench, copy)

    bench.at("staging.committed", put_old_ones_in_front)
    bench.work()

    assert bench.sent() == ids
    assert bench.sent("before the redirect") == []


def test_copies_of_another_installation_are_put_back_and_nothing_is_done(bench: Bench) -> None:
    bench.fail(2)
    bench.ask_all()

    def mix_up() -> None:
        for copy in bench.transport.broker.holds(STAGING):
            put_again(bench, copy, installation_id="another", staging_id="theirs")

    bench.at("staging.committed", mix_up)
    take_turns_until_troubled(bench)

    assert "another Retrier installation" in str(bench.processor.reason)
    codec = bench.transport.codec
    ids = [
        codec.read(each.raw).text(headers.INSTALLATION_ID)
        for each in bench.transport.broker.ready(STAGING)
    ]
    assert ids.count("another") == 2


def test_it_goes_on_once_the_other_installations_copies_are_gone(bench: Bench) -> None:
    ids = bench.fail(2)
    bench.ask_all()

    def mix_up() -> None:
        for copy in bench.transport.broker.holds(STAGING):
            put_again(bench, copy, installation_id="another", staging_id="theirs")

    bench.at("staging.committed", mix_up)
    take_turns_until_troubled(bench)

    purge(bench)
    bench.work()

    assert bench.sent() == ids


def test_a_queue_that_loses_all_three_times_is_left_alone_for_a_while(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    bench.crash_at = lambda point: purge(bench) if point == "staging.committed" else None

    while bench.told.names.count("batch.moved") < 3:
        bench.take_turn()

    (batch,) = bench.batches()
    assert batch["not_before"] is not None
    assert "the staging queue loses messages" in batch["reason"]


def test_a_queue_that_loses_messages_is_told(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    bench.crash_at = lambda point: purge(bench) if point == "staging.committed" else None

    while bench.told.names.count("batch.moved") < 3:
        bench.take_turn()

    reasons = [str(fields.get("reason")) for _, fields in bench.told.events]
    assert any("the staging queue loses messages" in reason for reason in reasons)


def test_somebody_else_who_takes_all_copies_is_ended_at_the_first_loss(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.ask_all()
    stranger: list[Subscription] = []

    def come_first(point: str) -> None:
        if point == "staging.committed" and not stranger:
            stranger.append(bench.transport.broker.subscribe(STAGING, 1000))

    bench.crash_at = come_first
    bench.work()

    assert bench.sent() == ids
    assert stranger[0].gone is not None
    assert bench.told.names.count("batch.moved") == 1


def test_a_loss_after_a_forward_does_not_count_towards_the_three(database: Database) -> None:
    bench = Bench(database, window=1)
    ids = bench.fail(12)
    bench.ask_all()
    bench.crash_at = lambda point: purge(bench) if point == "forwarding.published" else None

    bench.work()

    assert bench.sent() == ids
    assert bench.told.names.count("batch.moved") >= 3
    assert "batch.backing_off" not in bench.told.names


def test_a_message_with_headers_of_our_own_is_forwarded_all_the_same(bench: Bench) -> None:
    stray = {headers.END_MARKER: "x", headers.STAGING_ID: "old", headers.NUMBER: "many"}
    bench.fail(headers=stray)

    bench.ask_all()
    bench.work()

    assert len(bench.sent()) == 1
    assert "batch.moved" not in bench.told.names


def test_a_consumer_that_cannot_be_had_leaves_no_markers_behind(bench: Bench) -> None:
    ask_and_die_staged(bench)
    bench.transport.fail("transport.consumer", BrokerUnavailable("refused"), times=5)

    bench.work()

    assert sum(map(is_marker, bench.transport.published)) == 1


def test_without_order_silence_stands_for_the_marker(database: Database) -> None:
    bench = Bench(database, drain_timeout=timedelta(seconds=45))
    bench.transport.capabilities = replace(bench.transport.capabilities, ordered=False)
    ids = ask_and_die_staged(bench)
    start = bench.clock.monotonic()

    while bench.batches():
        bench.take_turn()

    assert bench.sent() == ids
    assert not any(map(is_marker, bench.transport.published))
    assert bench.clock.monotonic() - start >= 45


def test_without_order_a_window_goes_out_as_its_messages_failed(database: Database) -> None:
    bench = Bench(database)
    bench.transport.capabilities = replace(bench.transport.capabilities, ordered=False)
    ids = ask_and_die_staged(bench)
    copies = bench.transport.broker.holds(STAGING)
    purge(bench)
    for copy in reversed(copies):
        put_again(bench, copy)

    bench.work()

    assert bench.sent() == ids


def test_nothing_is_consumed_when_no_batch_is_forwarding(bench: Bench) -> None:
    bench.fail(3)

    bench.ask_all()
    bench.work()

    assert bench.transport.broker.queues[STAGING].subscriptions == []


def test_a_closed_batch_leaves_no_pointer(bench: Bench) -> None:
    bench.fail(3)
    bench.transport.cue(Unknown("reset"), when=to_queue(QUEUE))

    bench.ask_all()
    bench.work()

    assert bench.pointer() is None


def test_garbage_in_front_of_the_copies_loses_and_doubles_none(bench: Bench) -> None:
    # Given a new process, and more garbage in front than it can look through within its patience
    ids = ask_and_die_staged(bench)
    copies = bench.transport.broker.holds(STAGING)
    purge(bench)
    for _ in range(100):
        put_foreign(bench)
    for copy in copies:
        put_again(bench, copy)
    pass_time_with_each(bench, "consumer.receive", 1)

    bench.work()

    assert bench.sent() == ids
    assert bench.batches() == []


def test_without_order_garbage_in_front_of_the_copies_ends_no_batch_early(
    database: Database,
) -> None:
    bench = Bench(database, window=2, drain_timeout=timedelta(seconds=45))
    bench.transport.capabilities = replace(bench.transport.capabilities, ordered=False)
    ids = ask_and_die_staged(bench)
    copies = bench.transport.broker.holds(STAGING)
    purge(bench)
    for _ in range(10):
        put_foreign(bench)
    for copy in copies:
        put_again(bench, copy)
    pass_time_with_each(bench, "consumer.receive", 44)

    bench.work()

    assert bench.sent() == ids
    assert "batch.moved" not in bench.told.names


@pytest.mark.parametrize("ordered", [True, False])
def test_a_slow_destination_ends_no_batch_early(database: Database, *, ordered: bool) -> None:
    bench = Bench(database, window=1)
    bench.transport.capabilities = replace(bench.transport.capabilities, ordered=ordered)
    ids = ask_and_die_staged(bench)
    answer_late(bench, 100)

    bench.work()

    assert bench.sent() == ids
    assert "batch.moved" not in bench.told.names


def pass_time_with_each(bench: Bench, call: str, seconds: float) -> None:
    def pass_time(name: str) -> None:
        if name == call:
            bench.clock.advance(seconds)

    bench.transport.after_call = pass_time


def answer_late(bench: Bench, seconds: float) -> None:
    """Let each window take long, and the staging queue hand out nothing twice right behind it."""
    late: list[str] = []
    held: list[Delivery] = []

    def before(name: str) -> None:
        if name == "consumer.receive" and late:
            inbox = bench.transport.broker.queues[STAGING].subscriptions[0].inbox
            held.extend(inbox)
            inbox.clear()

    def after(name: str) -> None:
        if name == "publisher.publish":
            late[:] = [name] * 2
            bench.clock.advance(seconds)
        if name == "consumer.receive" and late:
            bench.transport.broker.queues[STAGING].subscriptions[0].inbox.extend(held)
            held.clear()
            late.pop()

    bench.transport.before_call, bench.transport.after_call = before, after
