"""Presumption: what was sent long ago and did not come back, and what comes late all the same."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from inspect import unwrap
from typing import Any

import pytest
from sqlalchemy import text, update

from retrier.domain.archive_operation import Act, ActRefusal
from retrier.domain.failed_message import Received
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.errors import LeaseLost
from retrier.store.archive import Action, RetriedAgain, retry_pending
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.figures import read_figures
from retrier.store.pending import PRESUMED_AT_ONCE, find_presumable, presume
from retrier.store.recording import record_received
from retrier.store.schema import (
    ended_retries,
    event_log,
    failed_message_retries,
    failed_messages,
    processing_attempts,
)
from retrier.store.verification import verify_store
from tests.contract.store_retries import BEING_SENT, SENT, STAGES, Retry, bring_to
from tests.contract.store_rows import again, rows
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, confirmation, dramatiq_body, failed_import
from tests.support.waiting import wait_until

AT_ONCE = timedelta(0)
HOUR = timedelta(hours=1)
EARLIER = FAILED_AT - timedelta(minutes=5)
DEADLINE = 30.0
claim_columns = failed_message_retries.c


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def presume_all(bench: Bench, sent_for: timedelta = AT_ONCE) -> int:
    """Do what the task does for one chunk."""
    found = find_presumable(bench.db, sent_for, 0)
    return presume(bench.db, bench.context.lease.fence, sent_for, found)


def presume_anyhow(bench: Bench, number: int, sent_for: timedelta = AT_ONCE) -> int:
    """Presume what was found a while ago, whatever happened to it since."""
    return presume(bench.db, bench.context.lease.fence, sent_for, [number])


def presumed(bench: Bench, **changes: Any) -> Retry:
    """Return a retry that is presumed to have succeeded."""
    retry = bring_to(bench, SENT, **changes)
    assert presume_all(bench) == 1
    return retry


def age(bench: Bench, retry: Retry, by: timedelta) -> None:
    """Let a retry have been sent so long ago."""
    sent = bench.db.read(lambda tx: tx.now) - by
    mine = claim_columns.number == retry.message["number"]
    with bench.db.engine.begin() as conn:
        values = {"sending_since": sent, "forwarded_at": sent}
        conn.execute(update(failed_message_retries).where(mine).values(**values))


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


class TestARetryThatWasSentLongAgo:
    def test_is_resolved_as_presumed(self, bench: Bench) -> None:
        retry = presumed(bench)

        row = retry.message
        assert (row["status"], row["resolution"]) == ("resolved", "presumed")
        assert row["resolved_at"] == row["last_modified"]
        assert not retry.has_claim
        assert broken_rules(bench) == []

    def test_keeps_the_id_by_which_its_late_outcome_is_recognised(self, bench: Bench) -> None:
        retry = presumed(bench)

        (ended,) = rows(bench.db, ended_retries)
        assert (ended["retry_id"], ended["outcome"]) == (retry.retry_id, "presumed")
        assert retry.message["last_retry_id"] == retry.retry_id

    def test_is_told_of_with_the_others_of_its_chunk(self, bench: Bench) -> None:
        bench.fail(3)
        bench.ask_all()
        bench.work()

        assert presume_all(bench) == 3

        (event,) = [
            each for each in rows(bench.db, event_log) if each["kind"] == "retries_presumed"
        ]
        assert event["text"].startswith("3 messages resolved: what was sent before ")
        assert event["who"] == "retrier"

    def test_changes_no_count_of_its_operation(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        before = retry.operation

        presume_all(bench)

        assert retry.operation == before

    def test_is_one_by_the_clock_of_the_database(self, bench: Bench) -> None:
        old, young = bring_to(bench, SENT), bring_to(bench, SENT)
        age(bench, old, HOUR + timedelta(minutes=1))
        age(bench, young, HOUR - timedelta(minutes=1))

        assert presume_all(bench, HOUR) == 1

        assert (old.message["status"], young.message["status"]) == ("resolved", "retry_issued")

    def test_is_not_one_while_the_clock_is_set_back(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        age(bench, retry, -HOUR)

        assert presume_all(bench) == 0

    def test_is_not_retried_by_a_request_for_everything(self, bench: Bench) -> None:
        retry = presumed(bench)

        bench.ask_all()
        bench.work()

        assert bench.sent() == [retry.key]


class TestWhatIsLeftAlone:
    @pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != SENT])
    def test_is_a_retry_that_is_not_recorded(self, bench: Bench, stage: str) -> None:
        """R38: stamped and not recorded, its message may never have been sent."""
        retry = bring_to(bench, stage)
        before = retry.message

        assert find_presumable(bench.db, AT_ONCE, 0) == []
        assert presume_anyhow(bench, retry.message["number"]) == 0

        assert retry.message == before
        assert retry.has_claim

    def test_is_one_in_doubt_that_the_next_process_then_sends(self, bench: Bench) -> None:
        retry = bring_to(bench, BEING_SENT)
        presume_anyhow(bench, retry.message["number"])

        assert retry.finish()["forwarded"] == 1
        assert retry.message["status"] == "retry_issued"

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            (lambda retry: retry.fail(retry_id=retry.retry_id), "unresolved"),
            (lambda retry: retry.confirm(), "resolved"),
        ],
        ids=["failed", "confirmed"],
    )
    def test_is_what_has_its_outcome_since_it_was_found(
        self, bench: Bench, change: Callable[[Retry], object], status: str
    ) -> None:
        retry = bring_to(bench, SENT)
        change(retry)

        assert presume_anyhow(bench, retry.message["number"]) == 0

        assert retry.message["status"] == status
        assert retry.message["resolution"] in {None, "confirmed"}

    def test_is_what_was_sent_anew_since_it_was_found(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        age(bench, retry, HOUR)
        release(bench, retry)
        bench.work()

        assert presume_anyhow(bench, retry.message["number"], sent_for=timedelta(minutes=30)) == 0

        assert retry.message["status"] == "retry_issued"

    def test_is_everything_where_the_lease_is_lost(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        fence = bench.context.lease.fence
        bench.lose_lease()

        with pytest.raises(LeaseLost):
            presume(bench.db, fence, AT_ONCE, [retry.message["number"]])

        assert retry.message["status"] == "retry_issued"


def request_of(retry: Retry) -> RetryRequest:
    return RetryRequest(
        retry_type=RetryType.MULTIPLE_MESSAGES,
        selection=Selection(ids=(retry.key,)),
        originator="a test",
        requested_by="ada",
    )


def release(bench: Bench, retry: Retry) -> RetriedAgain:
    """Ask for another retry of a pending one, as a person does."""
    return retry_pending(bench.db, request_of(retry), [retry.key])


class TestALateConfirmation:
    @pytest.mark.parametrize("succeeded_at", [EARLIER, None], ids=["earlier", "no time"])
    def test_upgrades_the_message(self, bench: Bench, succeeded_at: Any) -> None:
        retry = presumed(bench)

        retry.confirm(succeeded_at=succeeded_at)

        row = retry.message
        assert (row["status"], row["resolution"]) == ("resolved", "confirmed")
        assert row["resolved_at"] == succeeded_at
        assert broken_rules(bench) == []

    def test_with_content_upgrades_it_too(self, bench: Bench) -> None:
        """As it would have resolved it in time: nobody else could have sent it."""
        retry = presumed(bench)

        retry.confirm(if_idle=failed_import())

        assert retry.message["resolution"] == "confirmed"

    def test_that_comes_twice_is_counted_twice_and_changes_nothing_more(self, bench: Bench) -> None:
        retry = presumed(bench)
        retry.confirm()
        before = retry.message

        retry.confirm()

        assert retry.message == before
        assert read_figures(bench.db).ledger.uncounted_deliveries == 0

    def test_is_counted_in_the_ledger(self, bench: Bench) -> None:
        retry = presumed(bench)

        retry.confirm()

        ledger = read_figures(bench.db).ledger
        assert ledger.entry("confirmations") == 1
        assert (ledger.uncounted_deliveries, ledger.missing_messages) == (0, 0)

    def test_changes_nothing_that_a_person_resolved(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        apply_action(bench.db, Action(act=Act.RESOLVE, who="ada"), [retry.key])

        retry.confirm()

        assert retry.message["resolution"] == "by_hand"

    def test_in_one_batch_with_a_late_failure_leaves_it_as_the_times_say(
        self, bench: Bench
    ) -> None:
        retry = presumed(bench)
        failed = again(retry.first, queue=QUEUE, retry_id=retry.retry_id, time_of_failure=FAILED_AT)
        late = confirmation(retry.key, succeeded_at=FAILED_AT + HOUR)

        bench.receive(failed, late)

        assert retry.message["resolution"] == "confirmed"


class TestALateFailure:
    @pytest.mark.parametrize("time_of_failure", [EARLIER, FAILED_AT, None])
    @pytest.mark.parametrize("stamped", [True, False], ids=["with its id", "without any"])
    def test_makes_it_unresolved_again(
        self, bench: Bench, time_of_failure: Any, *, stamped: bool
    ) -> None:
        retry = presumed(bench)

        retry.fail(time_of_failure=time_of_failure, retry_id=retry.retry_id if stamped else None)

        row = retry.message
        assert (row["status"], row["resolution"], row["resolved_at"]) == ("unresolved", None, None)
        assert row["attempts"] == 2
        assert broken_rules(bench) == []

    def test_with_another_body_is_recognised_by_the_id_of_its_retry(self, bench: Bench) -> None:
        retry = presumed(bench, body=dramatiq_body())

        retry.fail(retry_id=retry.retry_id, body=dramatiq_body(retries=1))

        assert len(rows(bench.db, failed_messages)) == 1
        assert len(rows(bench.db, processing_attempts)) == 2

    def test_counts_as_the_first_after_a_retry(self, bench: Bench) -> None:
        retry = presumed(bench)

        retry.fail(retry_id=retry.retry_id)

        assert retry.message["failure_count"] == 1

    def test_of_one_that_was_confirmed_late_is_judged_by_its_time(self, bench: Bench) -> None:
        retry = presumed(bench)
        retry.confirm(succeeded_at=FAILED_AT + HOUR)

        retry.fail(time_of_failure=FAILED_AT, retry_id=retry.retry_id)

        assert retry.message["resolution"] == "confirmed"

    def test_can_be_retried(self, bench: Bench) -> None:
        retry = presumed(bench)
        retry.fail(retry_id=retry.retry_id)

        bench.ask_all()
        bench.work()

        assert bench.sent() == [retry.key, retry.key]
        assert broken_rules(bench) == []


class TestAPersonWhoComesLate:
    @pytest.mark.parametrize("act", [Act.RESOLVE, Act.RELEASE])
    def test_is_told_that_it_is_no_pending_retry_any_more(self, bench: Bench, act: Act) -> None:
        retry = presumed(bench)

        acted = apply_action(bench.db, Action(act=act, who="ada"), [retry.key])

        gone = ActRefusal.RESOLVED if act is Act.RESOLVE else ActRefusal.NOT_PENDING
        assert acted.refused == {retry.key: gone}


class TestTheFigures:
    def test_know_how_many_wait_and_for_how_long(self, bench: Bench) -> None:
        old, _ = bring_to(bench, SENT), bring_to(bench, SENT)
        age(bench, old, HOUR)

        figures = read_figures(bench.db)

        assert figures.pending == 2
        assert figures.oldest_pending is not None
        assert HOUR <= figures.oldest_pending < HOUR + timedelta(minutes=1)

    def test_know_nothing_of_what_is_not_recorded(self, bench: Bench) -> None:
        bring_to(bench, BEING_SENT)

        figures = read_figures(bench.db)

        assert (figures.pending, figures.oldest_pending) == (0, None)


def test_a_chunk_is_bounded_and_the_next_one_begins_behind_it(bench: Bench) -> None:
    bench.fail(PRESUMED_AT_ONCE + 1)
    bench.ask_all()
    bench.work()

    first = find_presumable(bench.db, AT_ONCE, 0)
    second = find_presumable(bench.db, AT_ONCE, first[-1])

    assert (len(first), len(second)) == (PRESUMED_AT_ONCE, 1)
    assert [*first, *second] == sorted({*first, *second})


def confirmed(retry: Retry) -> Received:
    return confirmation(retry.key)


def failed_again(retry: Retry) -> Received:
    return again(retry.first, queue=QUEUE, retry_id=retry.retry_id)


OUTCOMES = pytest.mark.parametrize(
    ("outcome", "status"), [(confirmed, "resolved"), (failed_again, "unresolved")]
)


class TestTwoSessionsAtOnce:
    """One holds its locks while the other one comes; on SQLite the other one always waits."""

    @OUTCOMES
    def test_an_outcome_that_is_being_stored_wins(
        self, bench: Bench, outcome: Callable[[Retry], Received], status: str
    ) -> None:
        retry = bring_to(bench, SENT)
        presuming = partial(presume_anyhow, bench, retry.message["number"])

        with ThreadPoolExecutor(1) as pool, in_the_middle(bench) as tx:
            unwrap(record_received)(tx, [outcome(retry)], instance="here")
            running = pool.submit(presuming)
            if not bench.db.is_sqlite:
                assert running.result(DEADLINE) == 0  # it waits for nobody
            tx.conn.commit()

            assert running.result(DEADLINE) == 0

        assert (retry.message["status"], retry.message["resolution"]) == (
            status,
            "confirmed" if status == "resolved" else None,
        )
        assert broken_rules(bench) == []

    @OUTCOMES
    def test_an_outcome_that_comes_meanwhile_waits_and_then_decides(
        self, bench: Bench, outcome: Callable[[Retry], Received], status: str
    ) -> None:
        retry = bring_to(bench, SENT)
        number = retry.message["number"]

        with ThreadPoolExecutor(1) as pool, in_the_middle(bench) as tx:
            assert unwrap(presume)(tx, AT_ONCE, [number]) == 1
            running = pool.submit(bench.receive, outcome(retry))
            wait_until(lambda: is_kept_waiting(bench.db), DEADLINE)
            tx.conn.commit()
            running.result(DEADLINE)

        assert (retry.message["status"], retry.message["resolution"]) == (
            status,
            "confirmed" if status == "resolved" else None,
        )
        assert broken_rules(bench) == []

    def test_a_retry_that_a_person_asks_for_wins_if_it_was_first(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        presuming = partial(presume_anyhow, bench, retry.message["number"])

        with ThreadPoolExecutor(1) as pool, in_the_middle(bench) as tx:
            again = unwrap(retry_pending)(tx, request_of(retry), [retry.key])
            running = pool.submit(presuming)
            if not bench.db.is_sqlite:
                assert running.result(DEADLINE) == 0
            tx.conn.commit()

            assert running.result(DEADLINE) == 0

        assert again.released == 1
        bench.work()
        assert bench.sent() == [retry.key, retry.key]
        assert broken_rules(bench) == []

    def test_a_retry_that_a_person_asks_for_meanwhile_sends_nothing(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        number = retry.message["number"]

        with ThreadPoolExecutor(1) as pool, in_the_middle(bench) as tx:
            unwrap(presume)(tx, AT_ONCE, [number])
            running = pool.submit(release, bench, retry)
            wait_until(lambda: is_kept_waiting(bench.db), DEADLINE)
            tx.conn.commit()
            assert running.result(DEADLINE).released == 0

        bench.work()
        assert bench.sent() == [retry.key]
        assert retry.message["resolution"] == "presumed"
        assert broken_rules(bench) == []


@contextmanager
def in_the_middle(bench: Bench) -> Iterator[Transaction]:
    """Give a transaction that others meet; it is rolled back unless it was committed."""
    with bench.db.engine.connect() as conn:
        yield Transaction(conn, bench.db.sql)


def is_kept_waiting(db: Database) -> bool:
    """Whether somebody waits for a lock; SQLite cannot say, and always lets others wait."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return db.is_sqlite or db.read(lambda tx: tx.execute(query).scalar_one()) == 1
