"""Failures are judged in the transaction that stores them; what is decided stands on their rows."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.archive_operation import Act
from retrier.domain.dialects.dialect import LOST_NEXT
from retrier.domain.failed_message import Failure
from retrier.policy.delays import Fixed
from retrier.policy.policy_set import Definition, Judge, Match, PolicySet, Rule
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.recording import Recorded, record_received
from retrier.store.schema import event_log, failed_messages, processing_attempts
from retrier.store.verification import verify_store
from tests.contract.store_rows import again, message, only_message, rows, select_rows
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id
from tests.support.policies import NAME, SomePolicies, bring_due

MINUTE = timedelta(minutes=1)
EARLIER = FAILED_AT - MINUTE


def receive(db: Database, policies: SomePolicies, *failures: Any) -> Recorded:
    return record_received(db, failures, instance="here", judge=policies.judging())


def time_of(db: Database) -> datetime:
    return db.read(lambda tx: tx.now)


def decision(row: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    return row["disposition"], row["policy"], row["disposition_reason"]


def events(db: Database, kind: str) -> list[dict[str, Any]]:
    return select_rows(db, select(event_log).where(event_log.c.kind == kind))


def broken(db: Database) -> list[str]:
    return [each.rule for each in verify_store(db).rules if each.broken]


class TestAFailure:
    def test_is_scheduled_by_the_databases_clock(self, database: Database) -> None:
        before = time_of(database)

        receive(database, SomePolicies(delay=MINUTE), failure())

        row = only_message(database)
        assert decision(row) == ("scheduled", NAME, "failed 1 of 3 times")
        assert before + MINUTE <= row["retry_at"] <= time_of(database) + MINUTE

    def test_is_dead_when_it_has_failed_too_often(self, database: Database) -> None:
        receive(database, SomePolicies(attempts=1), failure())

        row = only_message(database)
        assert decision(row) == ("dead", NAME, "failed 1 times")
        assert row["retry_at"] is None

    def test_is_left_to_a_person_where_its_rule_says_so(self, database: Database) -> None:
        policies = SomePolicies(manual=frozenset({"handler_exception"}))

        receive(database, policies, failure())

        row = only_message(database)
        assert decision(row) == ("manual", NAME, "handler_exception is for a person")

    def test_has_the_reason_of_its_class(self, database: Database) -> None:
        policies = SomePolicies(reasons={"TimeoutError": "timeout_exceeded"})

        receive(database, policies, failure(exception_type="TimeoutError"))

        assert only_message(database)["reason"] == "timeout_exceeded"

    def test_is_stored_with_what_was_decided_about_it(self, database: Database) -> None:
        receive(database, SomePolicies(), failure())

        (attempt,) = rows(database, processing_attempts)
        row = only_message(database)
        same = ("disposition", "disposition_reason", "policy", "retry_at", "reason")
        assert {name: attempt[name] for name in same} == {name: row[name] for name in same}
        assert attempt["failure_count"] == row["failure_count"] == 1

    def test_of_a_batch_has_a_decision_of_its_own(self, database: Database) -> None:
        first = failure()

        receive(database, SomePolicies(attempts=2), first, again(first))

        stored = rows(database, processing_attempts)
        assert [each["disposition"] for each in stored] == ["scheduled", "dead"]
        assert decision(only_message(database))[0] == "dead"

    def test_that_changes_nothing_is_classified_and_not_judged(self, database: Database) -> None:
        first = failure()
        receive(database, SomePolicies(), first)
        before = only_message(database)

        recorded = receive(
            database, SomePolicies(attempts=1), again(first, time_of_failure=EARLIER)
        )

        late = rows(database, processing_attempts)[1]
        assert decision(late) == (None, None, None)
        assert (late["reason"], late["failure_count"]) == ("handler_exception", None)
        row = only_message(database)
        assert decision(row) == decision(before)
        assert row["retry_at"] == before["retry_at"]
        assert recorded.decided == ()

    def test_that_is_confirmed_in_the_same_batch_is_not_retried(self, database: Database) -> None:
        failed = failure()

        recorded = receive(database, SomePolicies(), failed, confirmation(unique_id(failed)))

        row = only_message(database)
        assert (row["status"], *decision(row)) == ("resolved", "manual", None, None)
        assert row["retry_at"] is None
        assert recorded.decided == ()

    def test_that_may_be_a_copy_is_left_to_a_person(self, database: Database) -> None:
        first = failure(message_id=None, redelivered=True)
        policies = SomePolicies()
        receive(database, policies, first)

        receive(database, policies, first)

        copy = next(row for row in rows_of(database) if row["maybe_copy_of"])
        assert copy["disposition"] == "manual"
        assert "may be a copy" in copy["disposition_reason"]

    def test_that_its_library_would_lose_next_is_left_to_a_person(self, database: Database) -> None:
        rule = Rule(name="all", match=Match(), attempts=3, backoff=Fixed(first=MINUTE))
        policies = PolicySet(Definition(rules=(rule,)))
        judge = Judge(in_force=lambda: policies, dice=lambda: 0.0)

        lost = failure(failure_reason=LOST_NEXT)
        record_received(database, [lost, failure()], instance="here", judge=judge)

        assert message(database, unique_id(lost))["disposition"] == "manual"
        assert sorted(row["disposition"] for row in rows_of(database)) == ["manual", "scheduled"]

    def test_that_may_be_a_copy_is_left_to_a_person_when_it_fails_again(
        self, database: Database
    ) -> None:
        # Given a copy that waits since there were no policies
        first = failure(message_id=None, redelivered=True)
        for _ in range(2):
            record_received(database, [first], instance="here")
        copy = next(row for row in rows_of(database) if row["maybe_copy_of"])

        # When it fails again, and there are policies now
        again_failed = again(first, stamped_id=copy["unique_message_id"], body=first.body)
        receive(database, SomePolicies(), again_failed)

        # Then it still waits
        row = message(database, copy["unique_message_id"])
        assert (row["attempts"], row["disposition"]) == (2, "manual")
        assert row["maybe_copy_of"] == copy["maybe_copy_of"]

    def test_is_decided_by_the_dice_that_are_thrown(self, database: Database) -> None:
        policies = SomePolicies(delay=MINUTE)
        judge = policies.judging()
        thrown = type(judge)(in_force=judge.in_force, dice=lambda: 0.5)
        before = time_of(database)

        record_received(database, [failure()], instance="here", judge=thrown)

        assert only_message(database)["retry_at"] >= before + 1.5 * MINUTE

    def test_is_told_with_its_rule_and_reason(self, database: Database) -> None:
        recorded = receive(database, SomePolicies(), failure(), failure())

        (decided,) = recorded.decided
        assert (decided.disposition, decided.policy, decided.count) == ("scheduled", NAME, 2)
        assert recorded.reasons == decided.reasons == {"handler_exception": 2}


class TestWithoutPolicies:
    def test_a_person_decides(self, database: Database) -> None:
        record_received(database, [failure()], instance="here")

        row = only_message(database)
        assert decision(row) == ("manual", None, None)
        assert row["failure_count"] == 1

    def test_the_database_is_not_asked_for_its_time(self, database: Database) -> None:
        failed = failure()

        receive(database, SomePolicies(configured=False, delay=MINUTE), failed)

        assert only_message(database)["retry_at"] == failed.received_at + MINUTE

    def test_nothing_is_told(self, database: Database) -> None:
        record_received(database, [failure()], instance="here")

        assert rows(database, event_log) == []


class TestTheEvents:
    def test_of_a_hundred_dead_messages_are_one(self, database: Database) -> None:
        failures = [failure() for _ in range(100)]

        receive(database, SomePolicies(attempts=0), *failures)

        (told,) = events(database, "message_dead")
        assert told["details"]["count"] == 100
        assert {row["disposition_reason"] for row in rows_of(database)} == {"failed 1 times"}

    def test_are_one_for_each_decision_of_a_rule(self, database: Database) -> None:
        policies = SomePolicies(
            reasons={"Refused": "validation_failure"}, never=frozenset({"validation_failure"})
        )

        receive(database, policies, failure(), failure(), failure(exception_type="Refused"))

        (scheduled,) = events(database, "retry_scheduled")
        (dead,) = events(database, "message_dead")
        assert scheduled["details"] == {
            "policy": NAME,
            "count": 2,
            "reasons": {"handler_exception": 2},
        }
        assert dead["details"]["reasons"] == {"validation_failure": 1}

    def test_of_one_message_name_it(self, database: Database) -> None:
        failed = failure()

        receive(database, SomePolicies(), failed)

        (told,) = events(database, "retry_scheduled")
        assert told["unique_message_id"] == unique_id(failed)
        assert NAME in told["text"]


class TestPoison:
    def test_is_what_the_broker_gave_up_at_its_delivery_limit(self, database: Database) -> None:
        receive(database, SomePolicies(), failure(failure_reason="delivery_limit"))

        assert only_message(database)["reason"] == "poison_message"

    @pytest.mark.parametrize("said", [{"crashes": 11}, {"rejected": "RETRIES_EXCEEDED"}])
    def test_is_what_a_worker_crashed_over(self, database: Database, said: dict[str, Any]) -> None:
        receive(database, SomePolicies(), failure(**said))

        assert only_message(database)["reason"] == "poison_message"


class TestASchedule:
    @pytest.fixture
    def bench(self, database: Database) -> Bench:
        made = Bench(database, judge=SomePolicies().judging())
        made.fail()
        return made

    @pytest.mark.parametrize("act", [Act.ARCHIVE, Act.RESOLVE])
    def test_ends_when_a_person_deals_with_the_message(self, bench: Bench, act: Act) -> None:
        (key,) = bench.statuses()

        apply_action(bench.db, Action(act=act, who="ada"), [key])

        assert_unscheduled(bench, key)

    def test_ends_when_the_message_is_confirmed(self, bench: Bench) -> None:
        (key,) = bench.statuses()

        bench.confirm(key)

        assert bench.statuses() == {key: "resolved"}
        assert_unscheduled(bench, key)

    def test_ends_when_the_retry_that_a_person_asked_for_is_issued(self, bench: Bench) -> None:
        (key,) = bench.statuses()
        bench.ask([key])
        bench.kill_at("staging.committed")
        with pytest.raises(Killed):
            bench.work()

        assert bench.statuses() == {key: "retry_issued"}
        assert_unscheduled(bench, key)

    def test_stays_until_then(self, bench: Bench) -> None:
        (key,) = bench.statuses()
        bench.ask([key])
        bench.kill_at("staging.published")
        with pytest.raises(Killed):
            bench.work()

        assert bench.message(key)["disposition"] == "scheduled"

    def test_ends_while_the_message_is_archived(self, bench: Bench) -> None:
        (key,) = bench.statuses()

        apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [key])

        assert_unscheduled(bench, key)

    def test_comes_back_with_its_time_when_the_message_is_unarchived(self, bench: Bench) -> None:
        (key,) = bench.statuses()
        decided = ("disposition", "disposition_reason", "policy", "retry_at")
        before = bench.message(key)

        for act in (Act.ARCHIVE, Act.UNARCHIVE):
            apply_action(bench.db, Action(act=act, who="ada"), [key])

        after = bench.message(key)
        assert {name: after[name] for name in decided} == {name: before[name] for name in decided}
        assert after["failure_seq"] > before["failure_seq"]

    def test_is_due_at_once_if_its_time_passed_in_the_archive(self, bench: Bench) -> None:
        (key,) = bench.statuses()
        apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [key])
        long_ago = bench.message(key)["archived_retry_at"] - timedelta(days=2)
        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).values(archived_retry_at=long_ago))

        apply_action(bench.db, Action(act=Act.UNARCHIVE, who="ada"), [key])

        assert bench.message(key)["retry_at"] > long_ago + timedelta(days=1)


class TestTheCount:
    @pytest.fixture
    def bench(self, database: Database) -> Bench:
        return Bench(database, judge=SomePolicies(attempts=9).judging())

    def test_goes_on_after_a_retry_by_policy(self, bench: Bench) -> None:
        first = send_by_policy(bench)

        bench.receive(copy_of(bench, first))

        assert count(bench) == 2

    def test_begins_anew_after_a_retry_that_a_person_asked_for(self, bench: Bench) -> None:
        first = send_by_policy(bench)
        bench.receive(copy_of(bench, first))
        bench.ask_all()
        bench.work()
        issued = count(bench)

        bench.receive(copy_of(bench, first))

        assert (issued, count(bench)) == (0, 1)

    @pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
    def test_has_two_copies_of_one_retry_once(self, bench: Bench, *, together: bool) -> None:
        first = send_by_policy(bench)
        copies = [copy_of(bench, first), copy_of(bench, first)]

        for batch in [copies] if together else [[each] for each in copies]:
            bench.receive(*batch)

        assert count(bench) == 2
        assert len(rows(bench.db, processing_attempts)) == 3

    def test_has_the_retries_before_once_too(self, bench: Bench) -> None:
        first = send_by_policy(bench)
        early = copy_of(bench, first)
        bench.receive(early)
        bring_due(bench)
        bench.work()
        bench.receive(copy_of(bench, first))

        bench.receive(again(first, queue=QUEUE, retry_id=early.retry_id))

        assert count(bench) == 3

    def test_is_one_at_least_whatever_comes_late(self, bench: Bench) -> None:
        first = send_by_policy(bench)
        early = copy_of(bench, first)
        bench.receive(early)
        bench.ask_all()
        bench.work()
        release = Action(act=Act.RELEASE, who="ada")
        apply_action(bench.db, release, [unique_id(first)])

        bench.receive(again(first, queue=QUEUE, retry_id=early.retry_id))

        assert count(bench) == 1

    def test_does_not_have_a_failure_of_another_retry_than_the_claim(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        bench.receive(first)
        bring_due(bench)
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()
        before = bench.message(unique_id(first))

        bench.receive(again(first, queue=QUEUE, retry_id="another"))

        row = bench.message(unique_id(first))
        same = ("failure_count", "disposition", "retry_at", "failure_seq")
        assert [row[name] for name in same] == [before[name] for name in same]

    def test_has_a_retry_once_that_returns_before_it_is_recorded(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        bench.receive(first)
        bring_due(bench)
        bench.at("forwarding.published", lambda: bench.receive(copy_of(bench, first)))

        bench.work()

        row = bench.message(unique_id(first))
        assert (row["failure_count"], row["disposition"]) == (2, "scheduled")
        assert row["retry_at"] > time_of(bench.db)
        assert broken(bench.db) == []


def rows_of(db: Database) -> list[dict[str, Any]]:
    return rows(db, failed_messages)


def assert_unscheduled(bench: Bench, key: str) -> None:
    row = message(bench.db, key)
    assert (*decision(row), row["retry_at"]) == ("manual", None, None, None)
    assert broken(bench.db) == []


def send_by_policy(bench: Bench) -> Failure:
    """Let a message fail and its automatic retry be sent."""
    first = failure(queue=QUEUE)
    bench.receive(first)
    bring_due(bench)
    bench.work()
    return first


def copy_of(bench: Bench, first: Failure) -> Failure:
    """Return a failure of the retry that was sent last."""
    return again(first, queue=QUEUE, retry_id=bench.retry_id(unique_id(first)))


def count(bench: Bench) -> int:
    return int(only_message(bench.db)["failure_count"])
