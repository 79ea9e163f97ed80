"""A person's word, and a message that is dead, stand against all that runs by itself."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from retrier.domain.archive_operation import Act
from retrier.domain.decision import AGAIN
from retrier.domain.failed_message import Failure
from retrier.domain.retry_operation import RetryTerms
from retrier.store.archive import Action
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.schema import event_log, outgoing, processing_attempts
from retrier.store.verification import verify_store
from tests.contract.store_rows import again, message, messages, rows, select_rows
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.policies import SomePolicies, bring_due

WHY = "the order was cancelled by phone"
WORDS = f"declared dead by ada: {WHY}"
ARCHIVED = "a person had archived it, and it failed again, so a person decides"
LATER = FAILED_AT + timedelta(hours=1)
POLICIES = SomePolicies(
    attempts=5,
    never=frozenset({"validation_failure"}),
    reasons={"Refused": "validation_failure"},
)


@dataclass
class History:
    """One message on a bench, and what happens to it."""

    bench: Bench
    first: Failure

    @property
    def key(self) -> str:
        return unique_id(self.first)

    @property
    def row(self) -> dict[str, Any]:
        return message(self.bench.db, self.key)

    @property
    def decided(self) -> tuple[str, str, str | None]:
        row = self.row
        return row["status"], row["disposition"], row["disposition_reason"]

    @property
    def sent(self) -> int:
        """How many retries have reached its queue."""
        return len(self.bench.transport.broker.holds(QUEUE))

    def retry_by_policy(self) -> str:
        """Let its time come and its retry be sent; return the retry id."""
        bring_due(self.bench)
        self.bench.work()
        return str(self.row["last_retry_id"])

    def fail(self, retry_id: str | None = None, **changes: Any) -> None:
        stamps = {} if retry_id is None else {"stamped_id": self.key, "retry_id": retry_id}
        late = {"time_of_failure": LATER, "queue": QUEUE}
        self.bench.receive(again(self.first, **(late | stamps | changes)))

    def fail_twice(self, retry_id: str, **changes: Any) -> None:
        """Let two copies of a retry fail, in one batch."""
        stamps = {"stamped_id": self.key, "retry_id": retry_id, "queue": QUEUE}
        copies = [
            again(self.first, time_of_failure=LATER, **(stamps | more)) for more in ({}, changes)
        ]
        self.bench.receive(*copies)

    def declare_dead(self) -> None:
        assert declare_dead(self.bench.db, self.key, why=WHY, who="ada") is None

    def act(self, act: Act) -> None:
        done = apply_action(self.bench.db, Action(act=act, who="ada"), [self.key]).done
        assert done == (self.key,)

    def sends_by_itself(self) -> int:
        """Return how many retries go once all times have come."""
        before = self.sent
        bring_due(self.bench)
        self.bench.work()
        return self.sent - before


def attempts(it: History) -> list[dict[str, Any]]:
    return rows(it.bench.db, processing_attempts)


def events(it: History, kind: str) -> list[dict[str, Any]]:
    return select_rows(it.bench.db, select(event_log).where(event_log.c.kind == kind))


@pytest.fixture
def it(database: Database) -> History:
    bench = Bench(database, judge=POLICIES.judging())
    first = failure(queue=QUEUE)
    bench.receive(first)
    return History(bench, first)


def retried_once(it: History) -> str:
    """Let its first retry be sent by policy and fail; return the retry id."""
    retry_id = it.retry_by_policy()
    it.fail(retry_id)
    assert (it.row["disposition"], it.row["failure_count"]) == ("scheduled", 2)
    return retry_id


class TestTheFiveHistories:
    def test_dead_by_hand_then_a_second_copy_of_a_counted_retry(self, it: History) -> None:
        retry_id = retried_once(it)
        it.declare_dead()

        it.fail(retry_id)

        assert it.sends_by_itself() == 0
        assert (it.row["disposition"], it.row["failure_count"]) == ("dead", 2)
        assert it.row["disposition_reason"].startswith(WORDS)

    def test_dead_by_hand_then_a_failure_without_a_retry_id(self, it: History) -> None:
        it.declare_dead()

        it.fail()

        assert it.sends_by_itself() == 0
        assert it.row["disposition"] == "dead"
        assert it.row["disposition_reason"].startswith(WORDS)

    def test_dead_by_a_rule_then_a_second_copy_with_another_exception(self, it: History) -> None:
        retry_id = it.retry_by_policy()
        it.fail(retry_id, exception_type="Refused")

        it.fail(retry_id)

        assert it.sends_by_itself() == 0
        assert it.row["disposition"] == "dead"

    def test_dead_by_a_rule_at_first_then_another_failure(self, it: History) -> None:
        it.fail(exception_type="Refused")

        it.fail()

        assert it.sends_by_itself() == 0
        assert it.row["disposition"] == "dead"

    @pytest.mark.parametrize("act", [Act.ARCHIVE, Act.RESOLVE])
    def test_dealt_with_then_a_second_copy_of_a_counted_retry(self, it: History, act: Act) -> None:
        retry_id = retried_once(it)
        it.act(act)

        it.fail(retry_id)

        assert it.sends_by_itself() == 0
        assert (it.row["status"], it.row["disposition"]) == ("unresolved", "manual")


class TestWhatAPersonSaid:
    def test_stands_in_one_batch_as_in_two(self, it: History) -> None:
        retry_id = retried_once(it)
        it.act(Act.ARCHIVE)

        it.fail_twice(retry_id)

        assert it.sends_by_itself() == 0
        assert it.decided == ("unresolved", "manual", ARCHIVED)

    def test_stands_when_it_fails_again_and_again(self, it: History) -> None:
        it.act(Act.RESOLVE)
        for hour in (1, 2, 3):
            it.fail(time_of_failure=LATER + timedelta(hours=hour))

        assert it.sends_by_itself() == 0
        assert it.decided == ("unresolved", "manual", ARCHIVED.replace("archived", "resolved"))

    def test_outlasts_a_confirmation(self, it: History) -> None:
        it.declare_dead()
        it.bench.confirm(it.key, succeeded_at=LATER)
        assert it.row["status"] == "resolved"

        it.fail(time_of_failure=LATER + timedelta(hours=1))

        assert it.sends_by_itself() == 0
        assert it.decided == (
            "unresolved",
            "manual",
            "a person had declared it dead, and it failed again, so a person decides",
        )

    def test_stands_where_its_pending_retry_was_resolved(self, it: History) -> None:
        retry_id = it.retry_by_policy()
        it.act(Act.RESOLVE)

        it.fail(retry_id)

        assert it.sends_by_itself() == 0
        assert (it.row["status"], it.row["failure_count"]) == ("unresolved", 2)

    def test_stands_without_policies(self, database: Database) -> None:
        it = History(Bench(database), failure(queue=QUEUE))
        it.bench.receive(it.first)
        it.declare_dead()

        it.fail()

        assert it.decided == ("unresolved", "dead", f"{WORDS}{AGAIN}")

    def test_holds_for_another_message_under_its_retry(self, it: History) -> None:
        retry_id = retried_once(it)
        it.declare_dead()

        it.fail(retry_id, body=b"altered", message_id="another")

        assert it.sends_by_itself() == 0
        (row,) = (each for each in messages(it.bench.db).values() if each["derived_from"])
        assert row["disposition"] == "manual"
        assert it.key in row["disposition_reason"]

    def test_keeps_the_reason_that_they_gave(self, it: History) -> None:
        declare_dead(it.bench.db, it.key, why=WHY, who="ada", reason="poison_message")

        it.fail()

        assert it.row["reason"] == "poison_message"
        assert attempts(it)[-1]["reason"] == "handler_exception"

    def test_is_told_once_for_each_batch(self, it: History) -> None:
        it.declare_dead()

        it.fail()

        (told,) = events(it, "failed_after_last_word")
        assert told["unique_message_id"] == it.key
        assert told["details"] == {"last_word": "dead", "count": 1}
        assert events(it, "retry_scheduled")[1:] == events(it, "message_dead") == []


class TestAPersonWhoActsAgain:
    """Their act brings it back under the policies."""

    @pytest.mark.parametrize("act", [Act.ARCHIVE, Act.RESOLVE])
    def test_by_a_retry_of_all(self, it: History, act: Act) -> None:
        it.act(act)
        it.fail()
        it.bench.ask_all()
        it.bench.work()

        it.fail(str(it.row["last_retry_id"]))

        assert it.sends_by_itself() == 1

    def test_by_a_revive(self, it: History) -> None:
        it.declare_dead()
        it.fail()
        it.bench.ask([it.key])
        it.bench.work()

        it.fail(str(it.row["last_retry_id"]))

        assert (it.row["disposition"], it.row["failure_count"]) == ("scheduled", 1)
        assert it.sends_by_itself() == 1

    def test_by_taking_it_back(self, it: History) -> None:
        it.act(Act.ARCHIVE)
        it.act(Act.UNARCHIVE)

        it.fail()

        assert it.sends_by_itself() == 1

    def test_by_a_retry_that_cannot_be_sent(self, it: History) -> None:
        it.act(Act.ARCHIVE)
        it.fail()
        it.bench.ask_all(RetryTerms(destination="nowhere"))
        it.bench.work()

        assert (it.row["disposition"], it.row["last_word"]) == ("scheduled", None)


class TestASecondCopyOfACountedRetry:
    def test_moves_no_retry_that_is_planned(self, it: History) -> None:
        retry_id = retried_once(it)
        planned = it.row["retry_at"], *it.decided

        it.fail(retry_id, exception_type="Refused")

        assert (it.row["retry_at"], *it.decided) == planned
        assert it.row["attempts"] == 3

    def test_changes_nothing_in_the_batch_of_the_first(self, it: History) -> None:
        retry_id = it.retry_by_policy()

        it.fail_twice(retry_id, exception_type="Refused")

        assert (it.row["disposition"], it.row["failure_count"]) == ("scheduled", 2)

    def test_sends_nothing_again_that_was_confirmed(self, it: History) -> None:
        retry_id = retried_once(it)
        it.retry_by_policy()
        it.bench.confirm(it.key, succeeded_at=LATER)

        it.fail(retry_id, time_of_failure=LATER + timedelta(hours=1))

        assert it.sends_by_itself() == 0
        assert (it.row["status"], it.row["disposition"]) == ("unresolved", "manual")

    def test_is_kept_and_shown_and_not_judged_by_a_simulation(self, it: History) -> None:
        retry_id = retried_once(it)
        it.fail(retry_id)

        kept = attempts(it)[-1]
        assert (kept["disposition"], kept["failure_count"]) == (None, None)
        assert kept["disposition_reason"].startswith("not judged: failed 2 of 5 times")
        assert [each.rule for each in verify_store(it.bench.db).rules if each.broken] == []


class TestAMessageThatWasGivenUp:
    def test_stays_dead_in_the_batch_in_which_it_died(self, database: Database) -> None:
        first = failure(queue=QUEUE, exception_type="Refused")
        bench = Bench(database, judge=POLICIES.judging())

        bench.receive(first, again(first, queue=QUEUE))

        it = History(bench, first)
        assert it.row["disposition"] == "dead"
        assert it.sends_by_itself() == 0

    def test_stays_left_to_a_person_by_its_rule(self, database: Database) -> None:
        policies = replace(POLICIES, manual=frozenset({"validation_failure"}), never=frozenset())
        first = failure(queue=QUEUE, exception_type="Refused")
        it = History(Bench(database, judge=policies.judging()), first)
        it.bench.receive(first)

        it.fail()

        assert it.sends_by_itself() == 0
        assert it.row["disposition_reason"] == f"validation_failure is for a person{AGAIN}"

    def test_causes_no_second_notice(self, database: Database) -> None:
        policies = replace(POLICIES, notices="dead-letters")
        first = failure(queue=QUEUE, exception_type="Refused")
        it = History(Bench(database, judge=policies.judging()), first)
        it.bench.receive(first)

        it.fail(exception_type="Refused")

        assert len(rows(database, outgoing)) == 1
