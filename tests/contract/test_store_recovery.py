"""A restored database: retries that ended since look pending, and nothing of it is presumed."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import update

from retrier.domain.recovery import SLACK, Recovery, RecoveryRefusal
from retrier.store.engine.database import Database
from retrier.store.pending import find_presumable, presume
from retrier.store.recovery import (
    OnItsWay,
    begin_recovery,
    end_recovery,
    get_recovery,
    list_recovering,
)
from retrier.store.schema import event_log, failed_message_retries, recovery
from tests.contract.store_retries import BEING_SENT, CLAIMED, SENT, Retry, bring_to
from tests.contract.store_rows import rows
from tests.support.bench import QUEUE, Bench

AT_ONCE = timedelta(0)
HOUR = timedelta(hours=1)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def now(bench: Bench) -> datetime:
    return bench.db.read(lambda tx: tx.now)


def begin(bench: Bench, since: datetime | None = None) -> Recovery:
    begun = begin_recovery(bench.db, since or now(bench), "ada")
    assert isinstance(begun, Recovery)
    return begun


def sent(bench: Bench, ago: timedelta = AT_ONCE) -> Retry:
    """Return a retry that was sent so long ago and has no outcome."""
    retry = bring_to(bench, SENT)
    if ago:
        then = now(bench) - ago
        mine = failed_message_retries.c.number == retry.message["number"]
        with bench.db.engine.begin() as conn:
            values = {"sending_since": then, "forwarded_at": then}
            conn.execute(update(failed_message_retries).where(mine).values(**values))
    return retry


def counts(bench: Bench) -> tuple[OnItsWay, ...]:
    found = list_recovering(bench.db)
    assert found is not None
    return found.queues


class TestDuringARecovery:
    def test_nothing_is_presumed(self, bench: Bench) -> None:
        retry = sent(bench)
        begin(bench)

        assert find_presumable(bench.db, AT_ONCE, 0) == ()
        assert retry.message["status"] == "retry_issued"

    def test_nothing_is_presumed_that_was_found_before(self, bench: Bench) -> None:
        retry = sent(bench)
        found = find_presumable(bench.db, AT_ONCE, 0)
        begin(bench)

        assert presume(bench.db, bench.context.lease.fence, AT_ONCE, found) == 0
        assert retry.message["status"] == "retry_issued"

    def test_a_confirmation_still_resolves(self, bench: Bench) -> None:
        retry = sent(bench)
        begin(bench)

        retry.confirm()

        assert retry.message["resolution"] == "confirmed"

    def test_what_is_pending_is_presumed_again_once_it_is_over(self, bench: Bench) -> None:
        retry = sent(bench)
        begin(bench)

        assert end_recovery(bench.db, "ada")

        found = find_presumable(bench.db, AT_ONCE, 0)
        assert presume(bench.db, bench.context.lease.fence, AT_ONCE, found) == 1
        assert retry.message["resolution"] == "presumed"


class TestABegin:
    def test_is_kept_with_who_asked_for_it(self, bench: Bench) -> None:
        since = now(bench) - HOUR

        begun = begin(bench, since)

        assert get_recovery(bench.db) == begun
        assert (begun.since, begun.begun_by) == (since, "ada")

    def test_of_one_that_is_under_way_changes_only_the_time_of_the_backup(
        self, bench: Bench
    ) -> None:
        first = begin(bench)
        earlier = first.since - HOUR

        again = begin_recovery(bench.db, earlier, "grace")

        assert again == Recovery(since=earlier, begun_at=first.begun_at, begun_by="ada")
        assert len(rows(bench.db, recovery)) == 1

    def test_in_the_future_is_refused(self, bench: Bench) -> None:
        later = now(bench) + HOUR

        assert begin_recovery(bench.db, later, "ada") is RecoveryRefusal.NOT_YET
        assert get_recovery(bench.db) is None

    def test_is_possible_at_any_time_of_the_past(self, bench: Bench) -> None:
        sent(bench)
        long_ago = datetime.min.replace(tzinfo=now(bench).tzinfo)

        begin(bench, long_ago)

        (found,) = counts(bench)
        assert found.sent == 1

    def test_and_the_end_are_told_in_the_event_log(self, bench: Bench) -> None:
        begin(bench)
        end_recovery(bench.db, "grace")
        assert not end_recovery(bench.db, "grace")

        told = [(each["kind"], each["who"]) for each in rows(bench.db, event_log)]
        assert told == [("recovery_begun", "ada"), ("recovery_ended", "grace")]


class TestWhatWasOnItsWay:
    def test_is_counted_by_queue_and_by_how_far_it_was(self, bench: Bench) -> None:
        sent(bench)
        sent(bench, SLACK / 2)
        sent(bench, 2 * SLACK)
        bench.ask(bench.fail(queue="billing", destination=QUEUE))
        bench.work()
        bring_to(bench, BEING_SENT)
        begin(bench)

        billing, orders = counts(bench)
        assert billing == OnItsWay(queue="billing", sent=1, sent_before=0, in_doubt=0, not_sent=0)
        assert orders == OnItsWay(queue=QUEUE, sent=2, sent_before=1, in_doubt=1, not_sent=0)

    def test_has_what_was_claimed_and_not_sent(self, bench: Bench) -> None:
        bring_to(bench, CLAIMED)
        begin(bench)

        (found,) = counts(bench)
        assert (found.sent, found.in_doubt, found.not_sent) == (0, 0, 1)

    def test_is_nothing_that_was_sent_since(self, bench: Bench) -> None:
        begin(bench, now(bench) - HOUR)

        sent(bench)

        (found,) = counts(bench)
        assert (found.sent, found.sent_before) == (0, 0)

    def test_is_nothing_without_a_recovery(self, bench: Bench) -> None:
        sent(bench)

        assert list_recovering(bench.db) is None
