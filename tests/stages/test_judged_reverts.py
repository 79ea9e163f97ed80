"""A retry that could not be sent is judged like a failure: later, never more, or by a person."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.wire import Outcome, Refused, Returned, Unknown
from retrier.events.event import Event
from retrier.events.processor import BatchStaged, WindowRecorded
from retrier.policy.delays import Fixed
from retrier.policy.policy_set import Definition, Judge, Match, PolicySet, Rule
from retrier.store.engine.database import Database
from retrier.store.schema import causes, ended_retries, event_log
from retrier.store.verification import verify_store
from retrier.transport.queue_names import find_alike
from tests.contract.store_rows import again
from tests.support.bench import QUEUE, STAGING, Bench
from tests.support.factories import ERROR_QUEUE, failure, unique_id
from tests.support.policies import NAME, SomePolicies, bring_due
from tests.support.script import to_queue

MINUTE = timedelta(minutes=1)
SENT_TO = "gone"


@pytest.fixture
def policies() -> SomePolicies:
    return SomePolicies(attempts=3, delay=MINUTE)


@pytest.fixture
def seen() -> list[Event]:
    return []


@pytest.fixture
def bench(database: Database, policies: SomePolicies, seen: list[Event]) -> Bench:
    return Bench(database, judge=policies.judging(), subscriber=seen.append)


def try_by_policy(bench: Bench) -> dict[str, Any]:
    """Let what is scheduled come due and be tried; return the row of the one message."""
    bring_due(bench)
    bench.work()
    (key,) = bench.statuses()
    return bench.message(key)


def time_of(bench: Bench) -> datetime:
    return bench.db.read(lambda tx: tx.now)


def broken(bench: Bench) -> list[str]:
    return [each.rule for each in verify_store(bench.db).rules if each.broken]


class TestARetryThatIsReturned:
    def test_has_a_new_time(self, bench: Bench) -> None:
        bench.fail(queue=SENT_TO)

        row = try_by_policy(bench)

        assert (row["status"], row["disposition"]) == ("unresolved", "scheduled")
        assert row["retry_at"] > time_of(bench)
        assert broken(bench) == []

    def test_says_what_the_broker_said_and_what_was_decided(self, bench: Bench) -> None:
        bench.fail(queue=SENT_TO)

        row = try_by_policy(bench)

        assert row["disposition_reason"].startswith("queue gone does not exist (")
        assert row["disposition_reason"].endswith("; failed 2 of 3 times")
        assert (row["policy"], row["reason"]) == (NAME, "transport_unavailable")

    def test_counts_one(self, bench: Bench) -> None:
        bench.fail(queue=SENT_TO)

        row = try_by_policy(bench)

        assert row["failure_count"] == 2

    def test_is_given_up_in_the_end(self, bench: Bench) -> None:
        bench.fail(queue=SENT_TO)

        tried = [try_by_policy(bench)["disposition"] for _ in range(2)]

        assert tried == ["scheduled", "dead"]
        assert broken(bench) == []

    def test_counts_one_whatever_comes_of_a_copy_in_doubt(self, bench: Bench) -> None:
        first = failure(queue=SENT_TO)
        bench.receive(first)
        before = try_by_policy(bench)
        (ended,) = bench.rows(select(ended_retries))

        bench.receive(again(first, queue=SENT_TO, retry_id=str(ended["retry_id"])))

        assert bench.message(unique_id(first))["failure_count"] == before["failure_count"] == 2

    def test_that_a_person_asked_for_begins_the_count_anew(self, bench: Bench) -> None:
        first = failure(queue=SENT_TO)
        bench.receive(first, again(first, queue=SENT_TO))
        bench.ask_all()

        bench.work()

        row = bench.message(unique_id(first))
        assert (row["failure_count"], row["disposition"]) == (1, "scheduled")

    def test_is_told_in_events_and_to_who_counts(self, bench: Bench, seen: list[Event]) -> None:
        bench.fail(queue=SENT_TO)

        row = try_by_policy(bench)

        told = [each.decided for each in seen if isinstance(each, WindowRecorded)]
        (decided,) = [one for each in told for one in each]
        assert (decided.disposition, decided.policy, decided.count) == ("scheduled", NAME, 1)
        kind = event_log.c.kind == "retry_scheduled"
        logged = bench.rows(select(event_log).where(kind, event_log.c.batch_id.is_not(None)))
        assert [each["unique_message_id"] for each in logged] == [row["unique_message_id"]]

    def test_is_judged_as_one_that_was_not_sent(self, bench: Bench, policies: SomePolicies) -> None:
        bench.fail(queue=SENT_TO)
        policies.asked.clear()

        try_by_policy(bench)

        ((facts, failures),) = policies.asked
        assert (facts.unsent, facts.queue, facts.exception_type) == (
            True,
            SENT_TO,
            "Shop.OutOfStock",
        )
        assert failures == 2


class TestARetryThatIsRefused:
    def test_has_a_new_time(self, bench: Bench) -> None:
        bench.fail()
        bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE))

        row = try_by_policy(bench)

        assert row["retry_at"] > time_of(bench)
        assert row["reason"] == "transport_unavailable"
        assert "queue is full" in row["disposition_reason"]


class TestARetryThatCanNeverBeSent:
    @pytest.fixture
    def policies(self) -> SomePolicies:
        return SomePolicies(attempts=1000, delay=MINUTE)

    @pytest.fixture
    def row(self, bench: Bench) -> dict[str, Any]:
        bench.fail()
        never = Refused("it has 11 attributes", unsendable=True)
        bench.transport.cue(never, when=to_queue(QUEUE))
        return try_by_policy(bench)

    def test_is_sent_no_more_by_a_policy(self, bench: Bench, row: dict[str, Any]) -> None:
        assert (row["disposition"], row["retry_at"]) == ("dead", None)
        assert row["reason"] == "invalid_message"
        assert broken(bench) == []

    def test_says_what_is_wrong_with_it(self, row: dict[str, Any]) -> None:
        assert row["disposition_reason"].startswith(
            f"no retry of it can be sent to {QUEUE}: it has 11 attributes; "
        )

    def test_waits_for_a_person_without_policies(self, database: Database) -> None:
        bench = Bench(database)
        (key,) = bench.fail()
        bench.transport.cue(Refused("too large", unsendable=True), when=to_queue(QUEUE))
        bench.ask_all()

        bench.work()

        row = bench.message(key)
        assert (row["disposition"], row["reason"]) == ("manual", "invalid_message")

    def test_waits_for_a_person_if_an_earlier_try_was_left_in_doubt(self, bench: Bench) -> None:
        bench.fail()
        bench.transport.cue(Unknown("reset"), when=to_queue(QUEUE), stored=True)
        bench.transport.cue(Refused("too large", unsendable=True), when=to_queue(QUEUE))

        row = try_by_policy(bench)

        assert (row["disposition"], row["reason"]) == ("manual", "invalid_message")


class TestARetryThatMayHaveArrived:
    @pytest.mark.parametrize("refusal", [Returned("NO_ROUTE"), Refused("full")])
    def test_waits_for_a_person_if_an_earlier_try_was_left_in_doubt(
        self, bench: Bench, refusal: Outcome
    ) -> None:
        bench.fail()
        bench.transport.cue(Unknown("reset"), when=to_queue(QUEUE), stored=True)
        bench.transport.cue(refusal, when=to_queue(QUEUE))

        row = try_by_policy(bench)

        assert (row["status"], row["disposition"]) == ("unresolved", "manual")
        assert row["retry_at"] is None
        assert "may have arrived" in row["disposition_reason"]
        assert broken(bench) == []

    def test_waits_for_a_person_if_it_breaks_every_connection(self, bench: Bench) -> None:
        bench.fail()
        bench.transport.cue(Unknown("reset"), when=to_queue(QUEUE), times=None)

        row = try_by_policy(bench)

        assert (row["status"], row["disposition"]) == ("unresolved", "manual")
        assert "may have arrived" in row["disposition_reason"]

    def test_waits_for_a_person_if_it_is_stored_otherwise_than_it_was_sent(
        self, bench: Bench
    ) -> None:
        bench.fail()
        otherwise = Refused("it is stored otherwise", may_have_arrived=True)
        bench.transport.cue(otherwise, when=to_queue(QUEUE), stored=True)

        row = try_by_policy(bench)

        assert (row["status"], row["disposition"]) == ("unresolved", "manual")
        assert "stored otherwise" in row["disposition_reason"]
        assert len(bench.sent()) == 1

    def test_is_sent_again_by_a_person(self, bench: Bench) -> None:
        (key,) = bench.fail()
        otherwise = Refused("it is stored otherwise", may_have_arrived=True)
        bench.transport.cue(otherwise, when=to_queue(QUEUE))
        try_by_policy(bench)

        bench.ask([key])
        bench.work()

        assert bench.sent() == [key]


class TestARetryThatIsEjected:
    @pytest.mark.parametrize("destination", [ERROR_QUEUE, STAGING])
    def test_is_dead_if_it_could_never_go(self, bench: Bench, destination: str) -> None:
        bench.fail(destination=destination)

        row = try_by_policy(bench)

        assert (row["disposition"], row["policy"], row["retry_at"]) == ("dead", NAME, None)
        assert "destination" in row["disposition_reason"]
        assert broken(bench) == []

    def test_is_dead_if_its_destination_is_another_name_of_the_staging_queue(
        self, database: Database, policies: SomePolicies
    ) -> None:
        alike = find_alike("sqs://eu-west-1", {})
        bench = Bench(database, judge=policies.judging(), staging_queue="a.staging", alike=alike)
        bench.fail(destination="a-staging")

        row = try_by_policy(bench)

        assert row["disposition"] == "dead"
        assert (
            "destination a-staging is an error queue or staging queue" in row["disposition_reason"]
        )

    def test_waits_for_a_person_if_its_destination_is_not_known(self, bench: Bench) -> None:
        bench.fail(destination="")

        row = try_by_policy(bench)

        assert (row["disposition"], row["retry_at"]) == ("manual", None)
        assert "destination" in row["disposition_reason"]
        assert broken(bench) == []

    def test_is_not_cut_again_and_again(self, bench: Bench) -> None:
        bench.fail(destination=ERROR_QUEUE)
        first = try_by_policy(bench)

        second = try_by_policy(bench)

        assert second["failure_seq"] == first["failure_seq"]

    @pytest.mark.parametrize("destination", ["", ERROR_QUEUE])
    def test_waits_for_a_person_without_policies(
        self, database: Database, destination: str
    ) -> None:
        bench = Bench(database)
        (key,) = bench.fail(destination=destination)
        bench.ask_all()

        bench.work()

        row = bench.message(key)
        assert (row["disposition"], row["policy"]) == ("manual", None)
        assert "destination" in row["disposition_reason"]

    def test_for_its_bytes_is_judged_by_its_failure(
        self, bench: Bench, policies: SomePolicies
    ) -> None:
        bench.fail(raw=b"\xff")
        policies.asked.clear()

        row = try_by_policy(bench)

        ((facts, failures),) = policies.asked
        assert (facts.unsent, failures) == (False, 2)
        assert (row["disposition"], row["reason"]) == ("scheduled", "handler_exception")
        assert "cannot be read" in row["disposition_reason"]

    def test_keeps_the_reason_of_its_failure(self, database: Database) -> None:
        """Derived anew, without the stack trace, it would be that of any RuntimeError."""
        rule = Rule(
            name="away",
            match=Match(reason=("transport_unavailable",)),
            attempts=3,
            backoff=Fixed(first=MINUTE),
        )
        policies = PolicySet(Definition(rules=(rule,)))
        bench = Bench(database, judge=Judge(in_force=lambda: policies, dice=lambda: 0.0))
        trace = "Caused by: java.net.ConnectException: Connection refused"
        inside = failure(
            queue=QUEUE, raw=b"\xff", exception_type="java.lang.Error", stack_trace=trace
        )
        bench.receive(inside)

        row = try_by_policy(bench)

        assert "cannot be read" in row["disposition_reason"]
        assert (row["reason"], row["disposition"]) == ("transport_unavailable", "scheduled")

    def test_is_told_to_who_counts(self, bench: Bench, seen: list[Event]) -> None:
        bench.fail(destination=ERROR_QUEUE)

        try_by_policy(bench)

        told = [each.decided for each in seen if isinstance(each, BatchStaged)]
        assert [one.disposition for each in told for one in each] == ["dead"]
        assert [each["count"] for each in bench.told.of("policies.dead")] == [1]

    def test_of_a_redirected_queue_is_alive_again_after_a_persons_retry(self, bench: Bench) -> None:
        (key,) = bench.fail(destination=ERROR_QUEUE)
        try_by_policy(bench)
        with bench.db.engine.begin() as conn:
            conn.execute(update(causes).values(destination=QUEUE))
        bench.ask([key])

        bench.work()

        assert bench.sent() == [key]
        assert bench.message(key)["failure_count"] == 0
