"""Dead messages: revived, declared dead by hand, and taken out of whatever would send them."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from retrier.domain.archive_operation import Act, ActRefusal
from retrier.domain.retry_operation import Cancel, Pause, RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.errors import KeyReused
from retrier.store.archive import Action
from retrier.store.dead_messages import declare_dead, revive
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import event_log, failed_messages, outgoing, retry_operations
from retrier.store.verification import verify_store
from tests.contract.store_retries import BEING_SENT, CLAIMED, SENT, STAGED, bring_to
from tests.contract.store_rows import again, claims, rows
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.disposing import DUE, make_dead, schedule
from tests.support.factories import failure, unique_id

ARCHIVED, RESOLVED, UNRESOLVED, DEAD, SCHEDULED = (
    "archived",
    "resolved",
    "unresolved",
    "dead",
    "scheduled",
)
REVIVED: dict[str, ActRefusal | None] = {
    UNRESOLVED: ActRefusal.NOT_DEAD,
    SCHEDULED: ActRefusal.NOT_DEAD,
    DEAD: None,
    CLAIMED: ActRefusal.NOT_DEAD,
    STAGED: ActRefusal.NOT_DEAD,
    BEING_SENT: ActRefusal.NOT_DEAD,
    SENT: ActRefusal.NOT_DEAD,
    ARCHIVED: ActRefusal.NOT_DEAD,
    RESOLVED: ActRefusal.NOT_DEAD,
}
"""Why a message in each state is not revived; None if it is."""
DECLARED: dict[str, ActRefusal | None] = {
    UNRESOLVED: None,
    SCHEDULED: None,
    DEAD: ActRefusal.DEAD,
    CLAIMED: None,
    STAGED: ActRefusal.ISSUED,
    BEING_SENT: ActRefusal.ON_ITS_WAY,
    SENT: ActRefusal.SENT,
    ARCHIVED: ActRefusal.ARCHIVED,
    RESOLVED: ActRefusal.RESOLVED,
}
"""The same for declaring it dead."""


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def in_state(bench: Bench, state: str) -> str:
    if state in {CLAIMED, STAGED, BEING_SENT, SENT}:
        return bring_to(bench, state).key
    (key,) = bench.fail()
    made: dict[str, Callable[[], object]] = {
        UNRESOLVED: lambda: None,
        DEAD: lambda: make_dead(bench.db, key),
        SCHEDULED: lambda: schedule(bench.db, key),
        ARCHIVED: lambda: act(bench, Act.ARCHIVE, key),
        RESOLVED: lambda: act(bench, Act.RESOLVE, key),
    }
    made[state]()
    return key


def act(bench: Bench, wanted: Act, *keys: str) -> None:
    apply_action(bench.db, Action(act=wanted, who="ada"), keys)


def request_for(unique_id: str, key: str | None = None) -> RetryRequest:
    return RetryRequest(
        retry_type=RetryType.SINGLE_MESSAGE,
        selection=Selection(ids=(unique_id,)),
        originator=f"revive of message {unique_id}",
        requested_by="ada",
        idempotency_key=key,
    )


def ask(bench: Bench, unique_id: str, key: str | None = None) -> CreatedOperation:
    created = revive(bench.db, request_for(unique_id, key), unique_id)
    assert isinstance(created, CreatedOperation)
    return created


def give_up(bench: Bench, unique_id: str, reason: str | None = None) -> ActRefusal | None:
    return declare_dead(bench.db, unique_id, why="the shop is closed", who="ada", reason=reason)


def told(bench: Bench, kind: str) -> list[dict[str, Any]]:
    return [row for row in rows(bench.db, event_log) if row["kind"] == kind]


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


class TestAMessageThatIsRevived:
    @pytest.mark.parametrize(("state", "reason"), REVIVED.items())
    def test_is_dead(self, bench: Bench, state: str, reason: ActRefusal | None) -> None:
        key = in_state(bench, state)

        answer = revive(bench.db, request_for(key), key)

        assert reason == (None if isinstance(answer, CreatedOperation) else answer)

    def test_is_sent(self, bench: Bench) -> None:
        key = in_state(bench, DEAD)

        ask(bench, key)
        bench.work()

        assert bench.sent() == [key]

    def test_is_sent_though_all_other_operations_are_paused(self, bench: Bench) -> None:
        """A revive is an own operation: what is scheduled may stand still as long as it likes."""
        paused = bench.ask_all()
        key = in_state(bench, DEAD)
        bench.steer(paused, Pause())

        ask(bench, key)
        bench.work()

        assert bench.sent() == [key]

    def test_is_no_longer_dead_while_its_retry_is_on_its_way(self, bench: Bench) -> None:
        key = in_state(bench, DEAD)

        ask(bench, key)
        bench.work()

        shown = bench.message(key)
        assert (shown["status"], shown["disposition"]) == ("retry_issued", "manual")
        assert (shown["disposition_reason"], shown["policy"]) == (None, None)

    def test_stays_dead_until_then(self, bench: Bench) -> None:
        key = in_state(bench, DEAD)

        ask(bench, key)

        assert bench.message(key)["disposition"] == "dead"

    def test_twice_under_one_key_is_one_operation(self, bench: Bench) -> None:
        key = in_state(bench, DEAD)
        first = ask(bench, key, "monday")
        bench.work()

        again = ask(bench, key, "monday")

        assert (again.operation_id, again.repeated) == (first.operation_id, True)
        assert bench.sent() == [key]

    def test_under_the_key_of_another_request_is_refused(self, bench: Bench) -> None:
        first, second = in_state(bench, DEAD), in_state(bench, DEAD)
        ask(bench, first, "monday")

        with pytest.raises(KeyReused):
            revive(bench.db, request_for(second, "monday"), second)

    def test_while_a_retry_has_claimed_it_is_refused(self, bench: Bench) -> None:
        key = in_state(bench, DEAD)
        ask(bench, key)
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()

        assert revive(bench.db, request_for(key), key) is ActRefusal.CLAIMED

    def test_is_found_in_capitals_too(self, bench: Bench) -> None:
        key = in_state(bench, DEAD)

        assert ask(bench, key.upper()).total == 1

    @pytest.mark.parametrize("unknown", ["no id", "00000000-0000-0000-0000-000000000000"])
    def test_is_known(self, bench: Bench, unknown: str) -> None:
        assert revive(bench.db, request_for(unknown), unknown) is ActRefusal.UNKNOWN

    def test_and_refused_is_in_the_event_log(self, bench: Bench) -> None:
        key = in_state(bench, UNRESOLVED)

        revive(bench.db, request_for(key), key)

        (entry,) = told(bench, "revive_refused")
        assert (entry["who"], entry["unique_message_id"]) == ("ada", key)


class TestAMessageThatIsDeclaredDead:
    @pytest.mark.parametrize(("state", "reason"), DECLARED.items())
    def test_is_unresolved_and_not_being_sent(
        self, bench: Bench, state: str, reason: ActRefusal | None
    ) -> None:
        key = in_state(bench, state)
        before = bench.message(key), claims(bench.db)

        refused = give_up(bench, key)

        assert refused is reason
        after = bench.message(key), claims(bench.db)
        assert (after == before) is (reason is not None)
        assert broken_rules(bench) == []

    def test_says_who_declared_it_and_why(self, bench: Bench) -> None:
        key = in_state(bench, SCHEDULED)

        give_up(bench, key)

        shown = bench.message(key)
        assert (shown["status"], shown["disposition"]) == ("unresolved", "dead")
        assert shown["disposition_reason"] == "declared dead by ada: the shop is closed"
        assert (shown["policy"], shown["retry_at"]) == (None, None)
        (entry,) = told(bench, "message_declared_dead")
        assert (entry["who"], entry["unique_message_id"]) == ("ada", key)
        assert entry["text"] == f"{key}: dead: the shop is closed"

    def test_keeps_its_reason(self, bench: Bench) -> None:
        (key,) = bench.fail()
        before = bench.message(key)["reason"]

        give_up(bench, key)

        assert bench.message(key)["reason"] == before

    def test_may_be_given_a_reason_that_it_has_until_it_fails_again(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        key = unique_id(first)
        bench.receive(first)
        before = bench.message(key)["reason"]

        give_up(bench, key, "poison_message")
        given = bench.message(key)["reason"]
        ask(bench, key)
        bench.work()
        sent = bench.message(key)["reason"]
        bench.receive(again(first, queue=QUEUE, retry_id=bench.retry_id(key)))

        assert (given, sent) == ("poison_message", "poison_message")
        assert bench.message(key)["reason"] == before
        (entry,) = told(bench, "message_declared_dead")
        assert entry["text"] == f"{key}: dead with the reason poison_message: the shop is closed"
        assert broken_rules(bench) == []

    def test_is_taken_by_no_operation_that_was_asked_for_before(self, bench: Bench) -> None:
        (key,) = bench.fail()
        by_name, for_all = bench.ask([key]), bench.ask_all(disposition="any")

        give_up(bench, key)
        bench.work()

        assert bench.sent() == []
        assert bench.operation(by_name)["skipped"] == bench.operation(for_all)["skipped"] == 1

    def test_leaves_the_batch_that_has_claimed_it_and_the_others_go(self, bench: Bench) -> None:
        key, *others = bench.fail(3)
        created = bench.ask_all()
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()

        assert give_up(bench, key) is None
        bench.restart()
        bench.work()

        assert sorted(bench.sent()) == sorted(others)
        operation = bench.operation(created)
        assert (operation["state"], operation["skipped"]) == ("completed", 1)
        (entry,) = told(bench, "retry_skipped")
        assert "it was declared dead before it was sent" in entry["text"]

    def test_can_be_revived(self, bench: Bench) -> None:
        (key,) = bench.fail()
        give_up(bench, key)

        ask(bench, key)
        bench.work()

        assert bench.sent() == [key]

    @pytest.mark.parametrize("unknown", ["no id", "00000000-0000-0000-0000-000000000000"])
    def test_is_known(self, bench: Bench, unknown: str) -> None:
        assert give_up(bench, unknown) is ActRefusal.UNKNOWN

    def test_and_refused_is_in_the_event_log(self, bench: Bench) -> None:
        key = in_state(bench, ARCHIVED)

        give_up(bench, key)

        (entry,) = told(bench, "dead_refused")
        assert str(ActRefusal.ARCHIVED) in entry["text"]


class TestADecisionThatEnds:
    """Whoever makes it something else than unresolved ends its disposition in the same change."""

    @pytest.mark.parametrize("state", [DEAD, SCHEDULED])
    @pytest.mark.parametrize("wanted", [Act.ARCHIVE, Act.RESOLVE])
    def test_with_archive_and_resolve(self, bench: Bench, state: str, wanted: Act) -> None:
        key = in_state(bench, state)

        act(bench, wanted, key)

        shown = bench.message(key)
        assert (shown["disposition"], shown["retry_at"], shown["policy"]) == ("manual", None, None)

    @pytest.mark.parametrize("state", [DEAD, SCHEDULED])
    def test_and_is_given_back_once_it_is_unarchived(self, bench: Bench, state: str) -> None:
        key = in_state(bench, state)
        before = bench.message(key)
        act(bench, Act.ARCHIVE, key)

        act(bench, Act.UNARCHIVE, key)

        shown = bench.message(key)
        given_back = ("status", "disposition", "disposition_reason", "reason", "policy")
        assert {name: shown[name] for name in given_back} == {
            name: before[name] for name in given_back
        }

    def test_and_does_not_outlive_a_failure_in_the_archive(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        key = unique_id(first)
        bench.receive(first)
        give_up(bench, key)
        act(bench, Act.ARCHIVE, key)

        bench.receive(again(first, queue=QUEUE))

        assert bench.message(key)["archived_disposition"] is None

    @pytest.mark.parametrize("state", [DEAD, SCHEDULED])
    def test_with_a_retry_by_name(self, bench: Bench, state: str) -> None:
        key = in_state(bench, state)

        bench.ask([key])
        bench.work()

        shown = bench.message(key)
        assert bench.sent() == [key]
        assert (shown["disposition"], shown["retry_at"]) == ("manual", None)

    @pytest.mark.parametrize("state", [DEAD, SCHEDULED])
    def test_not_with_a_claim_that_is_released(self, bench: Bench, state: str) -> None:
        key = in_state(bench, state)
        created = bench.ask([key])
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()

        bench.steer(created, Cancel())
        bench.restart()
        bench.work()

        shown = bench.message(key)
        assert (claims(bench.db), bench.sent()) == ({}, [])
        assert shown["disposition"] == state
        assert shown["retry_at"] == (DUE if state == SCHEDULED else None)


class TestARule:
    """What `retrier verify` says of rows that no verb writes."""

    def broken_by(self, bench: Bench, statement: Any) -> list[str]:
        assert broken_rules(bench) == []
        with bench.db.engine.begin() as conn:
            conn.execute(statement)
        return broken_rules(bench)

    def test_finds_a_dead_message_without_a_reason(self, bench: Bench) -> None:
        in_state(bench, DEAD)

        found = self.broken_by(bench, update(failed_messages).values(disposition_reason=None))

        assert found == ["a dead message says why it is dead"]

    def test_finds_a_notice_without_its_id(self, bench: Bench) -> None:
        (key,) = bench.fail()
        declare_dead(bench.db, key, why="closed", who="ada", notices="shop.dead")

        found = self.broken_by(bench, update(outgoing).values(notice={"id": key}))

        assert found == ["a notice that waits to be sent has its id"]

    def test_finds_dead_ones_left_out_of_an_operation_for_one(self, bench: Bench) -> None:
        bench.ask(bench.fail())

        found = self.broken_by(bench, update(retry_operations).values(dead_left_out=1))

        assert found == ["an operation for one message leaves out no dead ones"]
