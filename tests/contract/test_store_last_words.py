"""A person's word, and a message that is dead, stand against all that runs by itself."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from retrier.domain.failed_message import Failure
from retrier.domain.message_actions import Act
from retrier.store.engine.database import Database
from retrier.store.verbs.dead_messages import declare_dead
from retrier.store.verbs.message_actions import Action
from tests.contract.store_rows import again, message
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.policies import SomePolicies, bring_due

WHY = "the order was cancelled by phone"
WORDS = f"declared dead by ada: {WHY}"
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
