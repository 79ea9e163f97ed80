"""One batch while its copies come: which of them make the next window, and what is acked when."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retrier.domain.copies import StagedCopy
from retrier.domain.retry_batch import (
    Ejected,
    RetryBatch,
    RetryBatchStatus,
    RevertCause,
    WindowResult,
)
from retrier.domain.wire import (
    ChannelClosed,
    Confirmed,
    Delivery,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
)
from retrier.processor.forwarding_run import (
    ForwardingRun,
    ReadyRetry,
    Suspect,
    WantedCopy,
    WindowSettlement,
    settle,
)

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
OURS = "staged now"
MARKER = "the end"
IN_DOUBT = "an earlier try was left in doubt and may have arrived"

Arrived = tuple[Delivery, StagedCopy | None]


def run_of(
    count: int | None = 3, *, counting: bool = True, marker: str | None = None
) -> ForwardingRun:
    batch = RetryBatch(
        batch_id="b",
        operation_id="o",
        session_id="s",
        status=RetryBatchStatus.FORWARDING,
        staging_id=OURS,
        initial_size=3,
        message_count=count,
        stage_attempts=0,
        not_before=None,
        reason=None,
        created_at=NOON,
        modified_at=NOON,
    )
    return ForwardingRun(batch=batch, counting=counting, marker=marker, began=1.0, quiet_since=1.0)


def copy(number: int, size: int = 1, staging_id: str = OURS, marker: str | None = None) -> Arrived:
    delivery = Delivery(tag=object(), queue="staging", raw=b"", body=b"", redelivered=False)
    stamps = StagedCopy(
        staging_id=staging_id,
        installation_id=None,
        number=number,
        unique_message_id=f"id{number}",
        retry_id=f"r{number}",
        target="orders",
        size=size,
        end_marker=marker,
    )
    return delivery, stamps


def end(nonce: str = MARKER, staging_id: str = OURS) -> Arrived:
    return copy(0, staging_id=staging_id, marker=nonce)


def wanted(arrived: Arrived) -> WantedCopy:
    delivery, stamps = arrived
    assert stamps is not None
    return WantedCopy(delivery=delivery, stamps=stamps)


def ready(arrived: Arrived, queue: str = "orders") -> ReadyRetry:
    return ReadyRetry(copy=wanted(arrived), outgoing=Outgoing(queue=queue, raw=b"", body=b""))


def ejected(number: int) -> Ejected:
    return Ejected(number=number, unique_message_id=f"id{number}", reason="no queue")


def numbers_of(retries: tuple[WantedCopy | ReadyRetry, ...]) -> list[int]:
    return [each.number for each in retries]


class TestSorting:
    def test_keeps_the_copies_of_the_batch_in_their_order(self):
        first, second, third = copy(2), copy(1), copy(3)

        run = run_of().sort([first, second]).sort([third])

        assert run.inbox == (wanted(first), wanted(second), wanted(third))
        assert (run.seen, run.droppable) == (frozenset({1, 2, 3}), ())

    def test_drops_what_is_no_copy_of_the_batch(self):
        strange = (copy(1)[0], None)
        old, unnumbered = copy(2, staging_id="staged before"), copy(0)

        run = run_of().sort([strange, old]).sort([unnumbered, copy(3)])

        assert run.droppable == (strange[0], old[0], unnumbered[0])
        assert run.seen == {3}

    def test_drops_the_second_copy_of_a_message(self):
        first, second, third = copy(1), copy(1), copy(1)

        run = run_of().sort([first, second]).sort([third])

        assert (run.inbox, run.droppable) == ((wanted(first),), (second[0], third[0]))

    def test_drops_the_end_marker_and_notes_that_it_came(self):
        marker = end()

        run = run_of(counting=False, marker=MARKER).sort([marker])

        assert (run.marker_seen, run.droppable) == (True, (marker[0],))
        assert run.sort([end("of another try")]).marker_seen

    @pytest.mark.parametrize("marker", [end("of another try"), end(staging_id="staged before")])
    def test_notes_no_other_end_marker(self, marker):
        run = run_of(counting=False, marker=MARKER).sort([marker])

        assert (run.marker_seen, run.droppable) == (False, (marker[0],))


class TestTheNextWindow:
    @pytest.mark.parametrize(
        ("count", "size", "expected"),
        [
            (10, 100, [1, 2, 3]),
            (2, 100, [1, 2]),
            (10, 100 - 1, [1, 2]),
            (10, 60, [1, 2]),
            (10, 60 - 1, [1]),
            (10, 20 - 1, [1]),
        ],
    )
    def test_has_the_first_copies_that_fit(self, count, size, expected):
        run = run_of().sort([copy(1, 20), copy(2, 40), copy(3, 40)])

        assert numbers_of(run.next_window(count, size)) == expected

    def test_is_empty_without_copies(self):
        assert run_of().next_window(10, 100) == ()

    def test_leaves_the_inbox_once_it_is_made(self):
        arrived = [copy(number) for number in (1, 2, 3, 4)]
        run = run_of().sort([(copy(9)[0], None), *arrived])
        window = run.next_window(3, 100)
        outgoing = ready(arrived[0]).outgoing

        made = run.made_ready(window, {1: outgoing, 2: ejected(2), 3: None})

        assert numbers_of(made.inbox) == [4]
        assert made.ready == (ReadyRetry(copy=window[0], outgoing=outgoing),)
        assert made.finished == WindowResult(reverted=(ejected(2),))
        assert made.unacked == (window[1].delivery,)
        assert made.droppable == (*run.droppable, window[2].delivery)

    def test_that_is_made_of_nothing_is_no_progress(self):
        run = run_of().sort([copy(1), copy(2)])

        assert not run.made_ready(run.next_window(1, 100), {}).made_progress
        assert run.made_ready(run.next_window(1, 100), {1: ejected(1)}).made_progress


class TestStamping:
    def test_sends_together_what_was_never_stamped_before(self):
        retries = tuple(ready(copy(number)) for number in (1, 2, 3))
        waits, drops = ready(copy(7)), copy(8)[0]
        run = replace(run_of(), ready=retries, doubtful=(waits,), droppable=(drops,))

        after, together = run.claimed({1: False, 2: True})

        assert together == retries[:1]
        assert (after.ready, after.doubtful) == ((), (waits, retries[1]))
        assert after.droppable == (drops, retries[2].copy.delivery)

    def test_sends_alone_the_first_that_is_in_doubt_if_it_has_its_claim(self):
        first, second, drops = ready(copy(1)), ready(copy(2)), copy(8)[0]
        run = replace(run_of(), doubtful=(first, second), droppable=(drops,))

        claimed, alone = run.claimed_alone({1: True})
        unclaimed, none = run.claimed_alone({2: True})

        assert (alone, claimed.doubtful, claimed.droppable) == ((first,), (second,), (drops,))
        assert (none, unclaimed.doubtful) == ((), (second,))
        assert unclaimed.droppable == (drops, first.copy.delivery)


class TestSettling:
    def test_sorts_a_window_by_what_the_broker_said(self):
        window = [ready(copy(number)) for number in range(1, 6)]
        outcomes: list[Outcome] = [
            Confirmed(),
            Returned("NO_ROUTE"),
            Refused("it is full"),
            ChannelClosed("too large"),
            Confirmed(),
        ]

        assert settle(window, outcomes) == WindowSettlement(
            result=WindowResult(
                forwarded=(1, 5),
                reverted=(
                    Ejected(
                        number=2,
                        unique_message_id="id2",
                        reason="queue orders does not exist (NO_ROUTE)",
                        cause=RevertCause.RETURNED,
                        destination="orders",
                    ),
                    Ejected(
                        number=3,
                        unique_message_id="id3",
                        reason="the broker would not take the retry to orders: it is full",
                        cause=RevertCause.REFUSED,
                        destination="orders",
                    ),
                ),
            ),
            settled=(window[0], window[1], window[2], window[4]),
            doubtful=(window[3],),
            lost=None,
        )

    def test_says_why_a_connection_was_lost_and_keeps_nothing_of_what_it_left(self):
        window = [ready(copy(1)), ready(copy(2))]

        settled = settle(window, [Unknown("reset"), Confirmed()])

        assert (settled.lost, settled.settled, settled.doubtful) == ("reset", (window[1],), ())

    def test_refuses_outcomes_of_another_window(self):
        with pytest.raises(ValueError, match="shorter"):
            settle([ready(copy(1)), ready(copy(2))], [Confirmed()])

    def test_is_to_be_recorded_and_acked_after_that(self):
        window = [ready(copy(number)) for number in (1, 2, 3)]
        before, unacked = ready(copy(7)), copy(8)[0]
        run = replace(
            run_of(),
            doubtful=(before,),
            finished=WindowResult(forwarded=(8,)),
            unacked=(unacked,),
        )

        settlement = settle(window, [Confirmed(), ChannelClosed("too large"), Confirmed()])
        after = run.settled(settlement, now=5.0)

        assert after.finished == WindowResult(forwarded=(8, 1, 3))
        assert after.unacked == (unacked, window[0].copy.delivery, window[2].copy.delivery)
        assert (after.doubtful, after.quiet_since) == ((before, window[1]), 5.0)
        assert after.made_progress
        assert after.droppable == ()

    def test_of_nothing_is_no_progress(self):
        lost = settle([ready(copy(1))], [Unknown("reset")])

        assert not run_of().settled(lost, now=5.0).made_progress
        assert replace(run_of(), made_progress=True).settled(lost, now=5.0).made_progress

    def test_may_be_acked_once_it_is_recorded(self):
        drops, unacked = copy(8)[0], copy(9)[0]
        finished = WindowResult(forwarded=(9,))
        run = replace(run_of(), finished=finished, unacked=(unacked,), droppable=(drops,))

        recorded = run.recorded()

        assert (recorded.finished, recorded.unacked) == (WindowResult(), ())
        assert recorded.droppable == (drops, unacked)
        assert recorded.acked().droppable == ()

    def test_outlives_the_connection_but_its_deliveries_do_not(self):
        finished = WindowResult(forwarded=(9,))
        run = replace(
            run_of(), finished=finished, unacked=(copy(9)[0],), droppable=(copy(8)[0],)
        ).disconnected()

        assert (run.finished, run.unacked, run.droppable) == (finished, (), ())
        assert not run.connected


class TestWhetherABatchIsDone:
    def test_is_asked_once_as_many_copies_came_as_were_counted(self):
        arrived = [copy(1), copy(2)]
        run = replace(run_of(2).sort(arrived), inbox=())

        assert run.may_be_done
        assert not replace(run, ready=(ready(arrived[0]),)).may_be_done
        assert not run_of(2).sort(arrived).may_be_done
        assert not replace(run_of(2).sort(arrived[:1]), inbox=()).may_be_done

    def test_is_asked_once_the_marker_came_and_nothing_is_left_to_send(self):
        run = run_of(counting=False, marker=MARKER)

        assert not run.may_be_done
        assert run.sort([end()]).may_be_done
        assert not run.sort([end(), copy(1)]).may_be_done

    def test_is_not_asked_by_a_count_of_which_nobody_knows_whether_it_came(self):
        run = replace(run_of(1, counting=False).sort([copy(1)]), inbox=())

        assert not run.may_be_done

    @pytest.mark.parametrize(
        ("count", "counting", "expected"), [(3, True, 2), (1, True, 0), (0, True, 0), (3, False, 0)]
    )
    def test_so_many_copies_are_still_to_come(self, count, counting, expected):
        assert run_of(count, counting=counting).sort([copy(1)]).outstanding == expected

    def test_none_are_to_come_of_a_batch_without_a_count(self):
        assert run_of(None).outstanding == 0

    def test_the_marker_counts_as_one_that_arrived(self):
        run = run_of(counting=False, marker=MARKER).sort([copy(1), copy(2)])

        assert (run.arrived, run.sort([end()]).arrived) == (2, 3)

    def test_it_misses_a_marker_that_was_published_and_did_not_come(self):
        run = run_of(counting=False, marker=MARKER)

        assert run.misses_marker
        assert not run.sort([end()]).misses_marker
        assert not run_of().misses_marker

    def test_it_got_nothing_if_no_copy_came_of_those_that_it_counts(self):
        assert run_of().got_nothing
        assert not run_of().sort([copy(1)]).got_nothing
        assert not run_of(counting=False).got_nothing

    def test_it_waits_for_copies_while_it_has_nothing_else_to_do(self):
        run = run_of(counting=False, marker=MARKER)
        finished = WindowResult(forwarded=(1,))

        assert run.expects_copies
        assert not run.sort([copy(1)]).expects_copies
        assert not replace(run, ready=(ready(copy(1)),)).expects_copies
        assert not replace(run, finished=finished).expects_copies
        assert not run.sort([end()]).expects_copies


class TestAMessageSentAlone:
    @pytest.mark.parametrize(
        ("outcome", "told"),
        [
            (Confirmed(), Confirmed()),
            (ChannelClosed("too large"), Refused("too large")),
            (
                ChannelClosed("too large", unsendable=True),
                Refused("too large", unsendable=True),
            ),
            (Returned("NO_ROUTE"), Returned(f"NO_ROUTE; {IN_DOUBT}", may_have_arrived=True)),
            (Refused("it is full"), Refused(f"it is full; {IN_DOUBT}", may_have_arrived=True)),
            (
                Refused("too large", unsendable=True),
                Refused(f"too large; {IN_DOUBT}", may_have_arrived=True, unsendable=True),
            ),
            (Unknown("reset"), Unknown("reset")),
        ],
        ids=repr,
    )
    def test_is_at_fault_for_what_becomes_of_it(self, outcome, told):
        assert Suspect().blame(7, outcome)[1] == told

    def test_that_breaks_the_connection_three_times_in_a_row_is_refused(self):
        suspect, told = Suspect(), []
        for _ in range(3):
            suspect, outcome = suspect.blame(7, Unknown("reset"))
            told.append(outcome)

        assert told[:2] == [Unknown("reset")] * 2
        assert told[2] == Refused(
            "the connection broke 3 times in a row while nothing else was sent; it may have "
            "arrived: reset",
            may_have_arrived=True,
        )
        assert suspect == Suspect(7, 3)

    def test_is_suspect_no_more_once_it_has_an_outcome(self):
        suspect, _ = Suspect(7, 2).blame(7, Confirmed())

        assert suspect == Suspect()

    def test_is_not_blamed_for_what_another_one_broke(self):
        suspect, outcome = Suspect(7, 2).blame(8, Unknown("reset"))

        assert (suspect, outcome) == (Suspect(8, 1), Unknown("reset"))
