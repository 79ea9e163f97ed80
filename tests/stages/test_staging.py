"""Staging: copies under a new id, messages that cannot be copied, and a broker that is away."""

from typing import Any

import pytest
from sqlalchemy import insert, select

from retrier.domain import headers
from retrier.domain.copies import PROBE_BODY
from retrier.domain.retry_operation import Cancel
from retrier.domain.wire import ChannelClosed, Delivery, Edit, Properties, Refused, Unknown
from retrier.errors import BrokerUnavailable
from retrier.events.processor import StagingIdsRecorded
from retrier.store.engine.database import Database
from retrier.store.schema import message_redirects, staging_ids
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.factories import ERROR_QUEUE, failure, raw_properties
from tests.support.flaky_database import FlakyDatabase
from tests.support.script import to_queue
from tests.support.staged import is_copy, of_message, put_foreign


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=2)


def redirect(bench: Bench, old: str, new: str) -> None:
    row = {"from_queue": old, "to_queue": new, "modified_at": bench.clock.now()}
    with bench.db.engine.begin() as conn:
        conn.execute(insert(message_redirects).values(row))


def copies(bench: Bench) -> list[Properties]:
    published = filter(is_copy, bench.transport.published)
    return [bench.transport.codec.read(each.raw) for each in published]


def count_adds_up(row: dict[str, Any]) -> bool:
    return bool(row["forwarded"] + row["failed"] + row["skipped"] == row["total"])


def test_each_attempt_has_a_staging_id_of_its_own(bench: Bench) -> None:
    bench.fail(1)
    bench.transport.cue(Unknown("reset"), when=is_copy, stored=True)

    bench.ask_all()
    bench.work()

    first, second = copies(bench)
    assert first.text(headers.STAGING_ID) != second.text(headers.STAGING_ID)


def test_a_copy_does_no_harm_twice_and_a_retry_may(bench: Bench) -> None:
    bench.ask(bench.fail(1))
    bench.work()

    told = {is_copy(each): each.repeatable for each in bench.transport.published}

    assert told == {True: True, False: False}


def test_what_earlier_attempts_left_is_purged(bench: Bench) -> None:
    bench.ask(bench.fail(1))
    bench.work()
    for _ in range(5):
        put_foreign(bench)

    bench.ask(bench.fail(1))
    at_commit: list[int] = []
    bench.at(
        "staging.committed", lambda: at_commit.append(len(bench.transport.broker.holds(STAGING)))
    )
    bench.work()

    assert at_commit == [1]


def test_a_broker_that_goes_down_while_staging_ejects_nobody(bench: Bench) -> None:
    ids = bench.fail(5)
    operation = bench.ask_all()

    bench.at("staging.purged", bench.transport.go_down)
    for _ in range(5):
        bench.take_turn()
        bench.end_waits()
    bench.transport.come_up()
    bench.work()

    assert bench.sent() == ids
    assert bench.operation(operation)["failed"] == 0


def test_a_batch_waits_with_the_reason_while_the_broker_is_down(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.at("staging.purged", lambda: bench.transport.go_down("connection refused"))

    while not bench.batches() or bench.batches()[0]["not_before"] is None:
        bench.take_turn()

    assert bench.batches()[0]["reason"] == "connection refused"


def test_a_reason_to_wait_is_gone_once_the_batch_is_staged(bench: Bench) -> None:
    bench.fail(1)
    bench.transport.cue(Unknown("reset"), when=is_copy)
    bench.ask_all()
    reasons: list[object] = []

    bench.at("staging.committed", lambda: reasons.append(bench.batches()[0]["reason"]))
    bench.work()

    assert reasons == [None]


def test_a_copy_the_broker_will_not_take_is_ejected_alone(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.transport.cue(
        ChannelClosed("406 bad header"), when=of_message(ids[3], STAGING), times=None
    )

    operation = bench.ask_all()
    bench.work()

    assert sorted(bench.sent()) == sorted({*ids} - {ids[3]})
    assert "406 bad header" in bench.message(ids[3])["disposition_reason"]
    row = bench.operation(operation)
    assert (row["state"], row["forwarded"], row["failed"]) == ("completed", 4, 1)


def test_what_is_ejected_of_a_batch_is_one_line_for_each_reason(bench: Bench) -> None:
    ids = [*bench.fail(3, queue=ERROR_QUEUE), *bench.fail(2, queue="q" * 256), *bench.fail(1)]

    bench.ask_all()
    bench.work()

    told = bench.told.of("message.ejected")
    assert [(line["count"], line["unique_message_id"]) for line in told] == [
        (3, ids[0]),
        (2, ids[3]),
    ]
    assert [line["reason"] for line in told] == [
        bench.message(ids[0])["disposition_reason"],
        bench.message(ids[3])["disposition_reason"],
    ]


def test_a_batch_of_nothing_but_guilty_copies_ends(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.transport.cue(Refused("properties too large"), when=is_copy, times=None)

    operation = bench.ask_all()
    bench.work()

    assert set(bench.statuses().values()) == {"unresolved"}
    assert bench.operation(operation)["failed"] == len(ids)
    assert bench.claims() == {}


@pytest.mark.parametrize("count", [1, 5])
def test_a_staging_queue_that_is_full_ejects_nobody(bench: Bench, count: int) -> None:
    ids = bench.fail(count)
    operation = bench.ask_all()
    bench.transport.cue(Refused("queue is full"), when=to_queue(STAGING), times=None)

    for _ in range(4):
        bench.take_turn()
        bench.end_waits()
    assert "queue is full" in str(bench.processor.reason)
    bench.transport.forget_cues()
    bench.work()

    assert sorted(bench.sent()) == sorted(ids)
    assert bench.operation(operation)["failed"] == 0


def test_a_staging_queue_that_fills_up_half_way_ejects_nobody(bench: Bench) -> None:
    ids = bench.fail(5)
    bench.ask_all()

    def fill(point: str) -> None:
        if point == "staging.sent" and len(bench.transport.broker.queues[STAGING].ready) > 2:
            bench.transport.cue(Refused("queue is full"), when=to_queue(STAGING), times=None)

    bench.crash_at = fill
    for _ in range(4):
        bench.take_turn()
        bench.end_waits()
    bench.transport.forget_cues()
    bench.crash_at = lambda _point: None
    bench.work()

    assert sorted(bench.sent()) == sorted(ids)


@pytest.mark.parametrize(
    ("destination", "word"),
    [("", "no destination"), (ERROR_QUEUE, "error queue"), (STAGING, "staging queue")],
)
def test_a_queue_that_would_bring_it_back_is_never_sent_to(
    bench: Bench, destination: str, word: str
) -> None:
    (kept,) = bench.fail()
    (lost,) = bench.fail(destination=destination)

    bench.ask_all()
    bench.work()

    assert bench.sent() == [kept]
    assert word in bench.message(lost)["disposition_reason"]
    assert bench.transport.broker.holds(ERROR_QUEUE) == []


def test_properties_that_cannot_be_read_eject_their_message(bench: Bench) -> None:
    (kept,) = bench.fail()
    (lost,) = bench.fail(raw=b"\xff")

    bench.ask_all()
    bench.work()

    assert bench.sent() == [kept]
    assert "cannot be read" in bench.message(lost)["disposition_reason"]


def test_a_redirect_is_applied(bench: Bench) -> None:
    bench.transport.broker.declare("new orders")
    ids = bench.fail(2)
    redirect(bench, QUEUE, "new orders")

    bench.ask_all()
    bench.work()

    assert bench.sent("new orders") == ids
    assert bench.sent() == []


def test_a_redirect_to_an_error_queue_ejects(bench: Bench) -> None:
    bench.fail(1)
    redirect(bench, QUEUE, ERROR_QUEUE)

    bench.ask_all()
    bench.work()

    assert bench.transport.broker.holds(ERROR_QUEUE) == []
    assert set(bench.statuses().values()) == {"unresolved"}


def test_a_message_ejected_is_not_cut_again_by_its_operation(bench: Bench) -> None:
    bench.fail(1, destination="")

    operation = bench.ask_all()
    bench.work()

    row = bench.operation(operation)
    assert (row["state"], row["batches"], row["failed"]) == ("completed", 1, 1)


@pytest.mark.parametrize("point", ["marking.moved", "staging.purged", "staging.published"])
def test_a_message_put_aside_before_staging_is_over_is_not_sent(bench: Bench, point: str) -> None:
    ids = bench.fail(3)
    operation = bench.ask_all()

    bench.at(point, lambda: bench.set_status(ids[1], "archived"))
    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == [ids[0], ids[2]]
    assert (row["state"], row["skipped"], count_adds_up(row)) == ("completed", 1, True)
    assert ids[1] not in bench.claims()


def test_a_batch_that_lost_all_its_messages_ends(bench: Bench) -> None:
    ids = bench.fail(2)
    operation = bench.ask_all()

    def put_all_aside() -> None:
        for unique_id in ids:
            bench.set_status(unique_id, "archived")

    bench.at("staging.published", put_all_aside)
    bench.work()

    assert bench.batches() == []
    assert bench.operation(operation)["skipped"] == 2


def test_a_message_that_fails_again_while_it_is_staged_is_not_sent(bench: Bench) -> None:
    (unique_id,) = bench.fail(message_id="7")
    operation = bench.ask([unique_id])

    bench.at("staging.published", lambda: bench.receive(failure(queue=QUEUE, message_id="7")))
    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == []
    assert bench.statuses() == {unique_id: "unresolved"}
    assert (row["state"], row["skipped"]) == ("completed", 1)


def test_a_commit_that_nobody_heard_of_is_forwarded_all_the_same(database: Database) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky, window=2)
    ids = bench.fail(3)
    bench.ask_all()

    flaky.silence("begin_forwarding")
    bench.work()

    assert bench.sent() == ids


@pytest.mark.parametrize("verb", ["cut_batch", "begin_forwarding"])
@pytest.mark.parametrize("count", [1, 3])
def test_what_is_cancelled_before_its_first_stamp_is_not_sent(
    database: Database, count: int, verb: str
) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky)
    ids = bench.fail(count)
    created = bench.ask(ids) if count == 1 else bench.ask_all()

    def cancel(done: str) -> None:
        if done == verb:
            flaky.after = lambda _verb: None
            bench.steer(created, Cancel())

    flaky.after = cancel
    bench.work()

    assert (bench.sent(), bench.operation(created)["state"]) == ([], "cancelled")
    assert bench.statuses() == dict.fromkeys(ids, "unresolved")


def test_a_retry_leaves_out_what_would_multiply_expire_or_bounce_it(bench: Bench) -> None:
    raw = AmqpPropertyCodec().edit(b"\x00\x00", Edit(set_headers={"CC": "x", "BCC": "y"}))
    bench.fail(1, raw=raw)

    bench.ask_all()
    bench.work()

    (sent,) = bench.transport.broker.holds(QUEUE)
    assert not {"CC", "BCC"} & set(bench.transport.codec.read(sent.raw).headers)


def test_without_error_queues_acknowledgements_go_where_the_message_failed(
    database: Database,
) -> None:
    bench = Bench(database, error_queues=())
    bench.fail(1)

    bench.ask_all()
    bench.work()

    (sent,) = bench.transport.broker.holds(QUEUE)
    retry = bench.transport.codec.read(sent.raw)
    assert retry.text(headers.ACKNOWLEDGEMENT_QUEUE) == ERROR_QUEUE


def test_nothing_is_purged_under_a_lease_that_another_processor_has(bench: Bench) -> None:
    bench.fail(1)
    bench.ask_all()
    bench.at("marking.moved", bench.lose_lease)
    bench.turn()

    bench.take_turn()

    assert "queues.purge" not in bench.transport.calls


def test_a_broker_that_breaks_off_every_attempt_is_tried_ever_more_rarely(bench: Bench) -> None:
    ids = bench.fail(5)
    operation = bench.ask_all()
    bench.transport.cue(Unknown("reset"), when=is_copy, times=7)
    waits: list[float] = []

    while len(waits) < 7:
        bench.take_turn()
        (batch,) = bench.batches()
        if batch["not_before"] is not None:
            waits.append((batch["not_before"] - batch["modified_at"]).total_seconds())
            bench.end_waits()
    bench.work()

    assert waits == [0.5, 1, 2, 5, 10, 10, 10]
    assert bench.sent() == ids
    assert bench.operation(operation)["failed"] == 0


def test_a_message_that_the_broker_dead_lettered_goes_home_without_its_deaths(
    bench: Bench,
) -> None:
    # A broker drops what has died in the same queue before: it takes that for a loop.
    raw = raw_properties({"x-death": "orders, expired", "x-first-death-queue": "orders", "Id": "7"})
    bench.fail(1, raw=raw, dialect="rabbitmq")

    bench.ask_all()
    bench.work()

    (sent,) = bench.transport.broker.holds(QUEUE)
    names = set(bench.transport.codec.read(sent.raw).headers)
    assert "Id" in names
    assert not {"x-death", "x-first-death-queue"} & names


def known_ids(bench: Bench) -> set[str]:
    return {row["staging_id"] for row in bench.rows(select(staging_ids))}


def test_a_staging_id_is_known_before_anything_goes_out_under_it(bench: Bench) -> None:
    bench.ask(bench.fail(3))
    unknown: list[str | None] = []

    def look(call: str) -> None:
        lying = bench.transport.broker.holds(STAGING) if call.startswith("publisher.") else []
        ids = [bench.transport.codec.read(each.raw).text(headers.STAGING_ID) for each in lying]
        unknown.extend(each for each in ids if each not in known_ids(bench))

    bench.transport.after_call = look
    bench.work()

    assert unknown == []
    assert {each.text(headers.STAGING_ID) for each in copies(bench)} < known_ids(bench)


def test_a_kill_before_the_first_copy_leaves_nothing_but_an_id(bench: Bench) -> None:
    bench.ask(bench.fail(3))
    bench.kill_at("staging.id_recorded", time=2)

    with pytest.raises(Killed):
        bench.work()

    assert len(known_ids(bench)) == 2
    assert bench.transport.published == []
    assert bench.batches()[0]["status"] == "staging"


def test_all_probes_of_a_process_go_out_under_one_id(bench: Bench) -> None:
    """A broker that breaks off each connection must not fill the table."""
    bench.ask(bench.fail(1))
    for _ in range(5):
        bench.transport.fail("publisher.publish", BrokerUnavailable("reset"))

    bench.work()

    staged = {each.text(headers.STAGING_ID) for each in copies(bench)}
    probes = known_ids(bench) - staged
    assert bench.context.retries.session_id in probes
    written_ahead = 1
    assert len(known_ids(bench)) == 1 + 6 + written_ahead


def written_alone(bench: Bench) -> list[str]:
    """Let the work be done; return each time that a staging id took a transaction of its own."""
    reached: list[str] = []
    bench.crash_at = reached.append
    bench.work()
    return [name for name in reached if name == StagingIdsRecorded.name]


def test_the_id_of_the_next_batch_is_written_by_the_move_of_the_one_before(bench: Bench) -> None:
    bench.ask(bench.fail(1))
    bench.work()

    bench.ask(bench.fail(1))

    assert written_alone(bench) == []
    assert {each.text(headers.STAGING_ID) for each in copies(bench)} < known_ids(bench)


def test_two_batches_never_share_a_staging_id(bench: Bench) -> None:
    for _ in range(3):
        bench.ask(bench.fail(1))
        bench.work()

    assert len({each.text(headers.STAGING_ID) for each in copies(bench)}) == 3


def test_an_id_that_was_written_long_ago_is_not_begun_with(bench: Bench) -> None:
    """It would be deleted while its copies may still lie somewhere."""
    bench.ask(bench.fail(1))
    bench.work()
    bench.clock.advance(3600)

    bench.ask(bench.fail(1))

    assert len(written_alone(bench)) == 1


def test_an_id_written_ahead_is_not_used_after_an_error(bench: Bench) -> None:
    bench.ask(bench.fail(1))
    bench.work()
    bench.transport.fail("publisher.publish", BrokerUnavailable("reset"))

    bench.ask(bench.fail(1))

    assert len(written_alone(bench)) >= 1


def test_a_probe_says_whose_it_is(bench: Bench) -> None:
    seen: list[Delivery] = []
    bench.ask(bench.fail(1))
    bench.transport.after_call = lambda call: (
        seen.extend(bench.transport.broker.holds(STAGING))
        if call == "transport.publisher"
        else None
    )

    bench.work()

    properties = bench.transport.codec.read(seen[0].raw)
    assert properties.headers == {
        headers.STAGING_ID: bench.context.retries.session_id,
        headers.INSTALLATION_ID: bench.context.retries.installation_id,
    }
    assert seen[0].body == PROBE_BODY
