"""Archive, unarchive, resolve and retrying pending retries again: every state and every act."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import update

from retrier.domain.archive_operation import Act, ActRefusal
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import AskedAgain, RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.gateway import Gateway
from retrier.store.archive import Action, change
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import event_log, failed_message_retries, retry_operation_messages
from retrier.store.selections import CHUNK, last_number
from retrier.store.verification import verify_store
from tests.contract.store_retries import BEING_SENT, CLAIMED, SENT, STAGED, bring_to
from tests.contract.store_rows import claims, rows
from tests.support.acting import apply_action
from tests.support.archiving import request_for, work_off_all
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure
from tests.support.imports import make_imports

UNRESOLVED, ARCHIVED, RESOLVED = "unresolved", "archived", "resolved"
STATES = (UNRESOLVED, CLAIMED, STAGED, BEING_SENT, SENT, ARCHIVED, RESOLVED)
ON_ITS_WAY = ActRefusal.ON_ITS_WAY

TABLE: dict[Act, dict[str, str | ActRefusal]] = {
    Act.ARCHIVE: {
        UNRESOLVED: "archived",
        CLAIMED: "archived",
        STAGED: "archived",
        BEING_SENT: ON_ITS_WAY,
        SENT: ActRefusal.SENT,
        ARCHIVED: ActRefusal.ARCHIVED,
        RESOLVED: ActRefusal.RESOLVED,
    },
    Act.RESOLVE: {
        UNRESOLVED: "resolved",
        CLAIMED: "resolved",
        STAGED: "resolved",
        BEING_SENT: ON_ITS_WAY,
        SENT: "resolved",
        ARCHIVED: ActRefusal.ARCHIVED,
        RESOLVED: ActRefusal.RESOLVED,
    },
    Act.UNARCHIVE: {
        UNRESOLVED: ActRefusal.NOT_ARCHIVED,
        CLAIMED: ActRefusal.NOT_ARCHIVED,
        STAGED: ActRefusal.NOT_ARCHIVED,
        BEING_SENT: ON_ITS_WAY,
        SENT: ActRefusal.NOT_ARCHIVED,
        ARCHIVED: "unresolved",
        RESOLVED: ActRefusal.NOT_ARCHIVED,
    },
    Act.RELEASE: {
        UNRESOLVED: ActRefusal.NOT_PENDING,
        CLAIMED: ActRefusal.NOT_PENDING,
        STAGED: ActRefusal.NOT_PENDING,
        BEING_SENT: ON_ITS_WAY,
        SENT: "unresolved",
        ARCHIVED: ActRefusal.NOT_PENDING,
        RESOLVED: ActRefusal.NOT_PENDING,
    },
}
"""What each act makes of a message in each state: its new status, or the refusal."""

CELLS = [
    pytest.param(act, state, result, id=f"{act} {state}")
    for act, results in TABLE.items()
    for state, result in results.items()
]
ALLOWED = [cell for cell in CELLS if not isinstance(cell.values[2], ActRefusal)]
REFUSED = [cell for cell in CELLS if isinstance(cell.values[2], ActRefusal)]
ALWAYS = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
LONG_ENOUGH = 0.3
"""Seconds an act needs at most when nothing holds it up."""
OPEN = frozenset({FailedMessageStatus.UNRESOLVED})
ISSUED = frozenset({FailedMessageStatus.RETRY_ISSUED})
SET_ASIDE = frozenset({FailedMessageStatus.ARCHIVED})
PENDING = Selection(statuses=ISSUED, modified=ALWAYS, pending=True)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def gateway(database: Database) -> Gateway:
    return Gateway(database, lambda: None, imports=make_imports(database))


def act(
    bench: Bench, wanted: Act, *ids: str, selection: Selection | None = None
) -> dict[str, ActRefusal]:
    """Do it; return the refusals."""
    asked = Action(act=wanted, who="ada", selection=selection)
    return dict(apply_action(bench.db, asked, ids).refused)


def in_state(bench: Bench, state: str) -> str:
    """Bring a message into a state; return its id."""
    if state in {CLAIMED, STAGED, BEING_SENT, SENT}:
        return bring_to(bench, state).key
    (key,) = bench.fail()
    if state in {ARCHIVED, RESOLVED}:
        act(bench, Act.ARCHIVE if state == ARCHIVED else Act.RESOLVE, key)
    return key


def retry_again(
    gateway: Gateway, *ids: str, selection: Selection | None = None, key: str | None = None
) -> AskedAgain:
    request = RetryRequest(
        retry_type=RetryType.MULTIPLE_MESSAGES,
        selection=Selection(ids=ids),
        originator="a test",
        requested_by="ada",
        idempotency_key=key,
    )
    return gateway.retry_again(request, selection)


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


def events(bench: Bench) -> list[dict[str, Any]]:
    return rows(bench.db, event_log)


def test_the_table_has_every_state_for_every_act() -> None:
    assert {wanted: tuple(results) for wanted, results in TABLE.items()} == dict.fromkeys(
        Act, STATES
    )


class TestEveryStateAndEveryAct:
    @pytest.mark.parametrize(("wanted", "state", "result"), ALLOWED)
    def test_an_act_that_may_be_done_changes_the_status_and_ends_the_claim(
        self, bench: Bench, wanted: Act, state: str, result: str
    ) -> None:
        key = in_state(bench, state)

        refused = act(bench, wanted, key)

        assert refused == {}
        assert bench.statuses() == {key: result}
        assert claims(bench.db) == {}
        assert broken_rules(bench) == []

    @pytest.mark.parametrize(("wanted", "state", "reason"), REFUSED)
    def test_an_act_that_is_refused_changes_nothing(
        self, bench: Bench, wanted: Act, state: str, reason: ActRefusal
    ) -> None:
        key = in_state(bench, state)
        before = bench.message(key), claims(bench.db)

        refused = act(bench, wanted, key)

        assert refused == {key: reason}
        assert (bench.message(key), claims(bench.db)) == before

    @pytest.mark.parametrize("state", [UNRESOLVED, CLAIMED, STAGED])
    def test_the_event_log_says_who(self, bench: Bench, state: str) -> None:
        key = in_state(bench, state)

        act(bench, Act.ARCHIVE, key)

        told = [row for row in events(bench) if row["unique_message_id"] == key]
        assert {"ada"} == {row["who"] for row in told}

    @pytest.mark.parametrize("wanted", Act)
    def test_an_unknown_id_is_refused(self, bench: Bench, wanted: Act) -> None:
        assert act(bench, wanted, "nobody") == {"nobody": ActRefusal.UNKNOWN}

    @pytest.mark.parametrize("state", [ARCHIVED, SENT])
    def test_what_becomes_unresolved_has_a_new_number(self, bench: Bench, state: str) -> None:
        key = in_state(bench, state)
        bench.fail()
        highest = last_number(bench.db)

        act(bench, Act.UNARCHIVE if state == ARCHIVED else Act.RELEASE, key)

        assert bench.message(key)["failure_seq"] > highest


class TestAMessageTakenOutOfItsBatch:
    @pytest.mark.parametrize("wanted", [Act.ARCHIVE, Act.RESOLVE])
    @pytest.mark.parametrize("stage", [CLAIMED, STAGED])
    def test_is_never_sent_and_counts_as_skipped(
        self, bench: Bench, wanted: Act, stage: str
    ) -> None:
        retry = bring_to(bench, stage)

        act(bench, wanted, retry.key)
        shown = retry.operation["skipped"]
        operation = retry.finish()

        assert bench.sent() == []
        assert shown == 1
        assert (operation["state"], operation["skipped"]) == ("completed", 1)
        assert broken_rules(bench) == []

    def test_says_why_in_an_operation_that_named_it(self, bench: Bench) -> None:
        (key,) = bench.fail()
        bench.ask([key])
        bench.at("marking.moved", lambda: act(bench, Act.ARCHIVE, key))

        bench.work()

        (named,) = rows(bench.db, retry_operation_messages)
        assert named["skipped_because"] == "it was archived before it was sent"

    def test_leaves_the_others_in_it(self, bench: Bench) -> None:
        first, second, third = bench.fail(3)
        operation = bench.ask_all()

        bench.at("staging.committed", lambda: act(bench, Act.ARCHIVE, second))
        bench.work()

        row = bench.operation(operation)
        assert bench.sent() == [first, third]
        assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 2, 1)

    def test_is_not_taken_up_again_after_it_is_unarchived(self, bench: Bench) -> None:
        retry = bring_to(bench, CLAIMED)

        act(bench, Act.ARCHIVE, retry.key)
        act(bench, Act.UNARCHIVE, retry.key)
        operation = retry.finish()

        assert bench.sent() == []
        assert (operation["state"], operation["skipped"]) == ("completed", 1)


class TestASettledMessage:
    def test_that_was_resolved_by_hand_is_unresolved_when_it_fails_again(
        self, bench: Bench
    ) -> None:
        retry = bring_to(bench, SENT)
        act(bench, Act.RESOLVE, retry.key)

        retry.fail(retry_id=retry.retry_id)

        assert retry.message["status"] == "unresolved"
        assert broken_rules(bench) == []

    def test_that_is_archived_stays_so_on_a_late_confirmation(self, bench: Bench) -> None:
        key = in_state(bench, ARCHIVED)

        bench.confirm(key)

        assert bench.statuses() == {key: "archived"}


class TestBulks:
    def test_a_group_archives_what_is_unresolved(self, bench: Bench, gateway: Gateway) -> None:
        resolved, left = bench.fail(2, message_type="A")
        (other,) = bench.fail(message_type="B")
        act(bench, Act.RESOLVE, resolved)
        group = failure(message_type="A").cause.groups
        (wanted,) = [each.group_id for each in group if each.title == "A"]

        outcome = gateway.archives.ask(
            request_for(Act.ARCHIVE, Selection(statuses=OPEN, group=wanted))
        ).operation

        assert (outcome.done, outcome.skipped) == (1, 0)
        assert bench.statuses() == {resolved: "resolved", left: "archived", other: "unresolved"}

    def test_a_group_leaves_alone_what_was_issued_since_it_was_selected(self, bench: Bench) -> None:
        retry = bring_to(bench, STAGED)
        unresolved = Selection(statuses=OPEN)

        refused = act(bench, Act.ARCHIVE, retry.key, selection=unresolved)

        assert refused == {retry.key: ActRefusal.CHANGED}
        assert retry.message["status"] == "retry_issued"

    def test_a_group_can_be_retried_after_its_archive_met_a_running_retry(
        self, bench: Bench, gateway: Gateway
    ) -> None:
        retry = bring_to(bench, BEING_SENT)
        (group, *_) = (each.group_id for each in retry.first.cause.groups)
        of_group = Selection(statuses=OPEN, group=group)

        outcome = gateway.archives.ask(request_for(Act.ARCHIVE, of_group)).operation
        retry.finish()
        retry.fail(retry_id=retry.retry_id)
        again = bench.ask_all(group=group)
        bench.work()

        assert outcome.done == 0
        assert (again.total, bench.operation(again)["forwarded"]) == (1, 1)

    def test_the_archive_of_an_empty_group_leaves_nothing_behind(
        self, bench: Bench, gateway: Gateway
    ) -> None:
        of_none = Selection(statuses=OPEN, group="nobody's")

        outcome = gateway.archives.ask(request_for(Act.ARCHIVE, of_none)).operation

        assert (outcome.done, outcome.skipped) == (0, 0)
        assert events(bench) == []

    @pytest.mark.parametrize("way", ["unarchived", "resolved", "retried again"])
    def test_no_claim_survives(self, bench: Bench, way: str) -> None:
        retry = bring_to(bench, SENT)
        ways: dict[str, Callable[[], object]] = {
            "unarchived": lambda: [
                act(bench, Act.RELEASE, retry.key),
                act(bench, Act.ARCHIVE, retry.key),
                act(bench, Act.UNARCHIVE, retry.key),
            ],
            "resolved": lambda: [act(bench, Act.RESOLVE, retry.key), retry.fail()],
            "retried again": lambda: act(bench, Act.RELEASE, retry.key),
        }

        ways[way]()
        again = bench.ask([retry.key])
        bench.work()

        assert bench.operation(again)["forwarded"] == 1
        assert bench.sent() == [retry.key, retry.key]

    def test_goes_on_after_a_thousand(self, bench: Bench, gateway: Gateway) -> None:
        bench.receive(*(failure(queue=QUEUE) for _ in range(CHUNK + 2)))

        gateway.archives.ask(request_for(Act.ARCHIVE, Selection(statuses=OPEN)))
        work_off_all(bench, CHUNK)
        archived = set(bench.statuses().values())
        back = Selection(statuses=SET_ASIDE, modified=ALWAYS)
        gateway.archives.ask(request_for(Act.UNARCHIVE, back))
        work_off_all(bench, CHUNK)

        assert (archived, set(bench.statuses().values())) == ({"archived"}, {"unresolved"})

    def test_of_ids_skip_and_count_what_may_not_be(self, bench: Bench, gateway: Gateway) -> None:
        retry = bring_to(bench, SENT)
        (free,) = bench.fail()

        outcome = gateway.archives.ask(
            request_for(Act.ARCHIVE, Selection(ids=(free, retry.key, "nobody", free)))
        ).operation

        assert outcome.done == 1
        assert outcome.skipped_because == {ActRefusal.SENT: 1, ActRefusal.UNKNOWN: 1}

    def test_resolving_by_time_takes_pending_retries_only(
        self, bench: Bench, gateway: Gateway
    ) -> None:
        sent = bring_to(bench, SENT)
        being_sent = bring_to(bench, BEING_SENT)
        (unresolved,) = bench.fail()

        outcome = gateway.archives.ask(request_for(Act.RESOLVE, PENDING)).operation

        assert (outcome.done, outcome.skipped) == (1, 0)
        assert bench.statuses() == {
            sent.key: "resolved",
            being_sent.key: "retry_issued",
            unresolved: "unresolved",
        }

    @pytest.mark.parametrize(("first", "last", "done"), [(0, 1, 0), (-1, 1, 1)])
    def test_a_range_is_of_the_last_change(
        self, bench: Bench, gateway: Gateway, first: int, last: int, done: int
    ) -> None:
        retry = bring_to(bench, SENT)
        changed = retry.message["last_modified"]
        modified = (
            changed.replace(year=changed.year + (first or 1)),
            changed.replace(year=changed.year + last),
        )

        wanted = replace(PENDING, queue=QUEUE, modified=modified)
        outcome = gateway.archives.ask(request_for(Act.RESOLVE, wanted)).operation

        assert outcome.done == done


class TestPendingRetriesRetriedAgain:
    def test_are_sent_again_under_another_retry_id(self, bench: Bench, gateway: Gateway) -> None:
        retry = bring_to(bench, SENT)

        again = retry_again(gateway, retry.key)
        bench.work()

        assert (len(again.operation_ids), again.total) == (1, 1)
        assert bench.sent() == [retry.key, retry.key]
        assert bench.retry_id(retry.key) != retry.retry_id
        assert broken_rules(bench) == []

    def test_a_late_failure_of_the_first_retry_leaves_the_second_in_force(
        self, bench: Bench, gateway: Gateway
    ) -> None:
        retry = bring_to(bench, SENT)
        retry_again(gateway, retry.key)
        bench.work()

        retry.fail(retry_id=retry.retry_id)

        assert retry.message["status"] == "retry_issued"

    @pytest.mark.parametrize("stage", [STAGED, BEING_SENT])
    def test_one_that_is_not_recorded_is_not_sent_twice(
        self, bench: Bench, gateway: Gateway, stage: str
    ) -> None:
        retry = bring_to(bench, stage)
        before = len(bench.sent())

        retry_again(gateway, retry.key)
        retry.finish()

        assert claims(bench.db)[retry.key]["retry_id"] == retry.retry_id
        assert len(bench.sent()) == before + 1
        assert broken_rules(bench) == []

    def test_of_a_queue_are_those_that_failed_on_it(self, bench: Bench, gateway: Gateway) -> None:
        retry = bring_to(bench, SENT)
        of_other = replace(PENDING, queue="other")
        of_queue = replace(PENDING, queue=QUEUE)

        nothing = retry_again(gateway, selection=of_other)
        again = retry_again(gateway, selection=of_queue)
        bench.work()

        assert nothing == AskedAgain(operation_ids=(), total=0)
        assert again.total == 1
        assert bench.sent() == [retry.key, retry.key]

    def test_the_same_request_twice_is_one(self, bench: Bench, gateway: Gateway) -> None:
        retry = bring_to(bench, SENT)

        first = retry_again(gateway, retry.key, key="k")
        bench.work()
        second = retry_again(gateway, retry.key, key="k")
        bench.work()

        assert second == first
        assert len(bench.sent()) == 2


class TestTwoAtOnce:
    def test_an_act_waits_for_a_window_that_is_being_stamped(self, bench: Bench) -> None:
        retry = bring_to(bench, STAGED)
        refused: dict[str, ActRefusal] = {}
        acting = Thread(target=lambda: refused.update(act(bench, Act.ARCHIVE, retry.key)))

        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_message_retries).values(sending_since=ALWAYS[0]))
            acting.start()
            acting.join(LONG_ENOUGH)
            waited = acting.is_alive()
        acting.join()

        assert waited
        assert refused == {retry.key: ON_ITS_WAY}

    def test_a_window_waits_for_an_act_and_leaves_its_message_out(self, bench: Bench) -> None:
        retry = bring_to(bench, STAGED)
        bench.restart()
        working = Thread(target=bench.work)

        with bench.db.engine.begin() as conn:
            tx = Transaction(conn, bench.db.sql)
            change(tx, Action(act=Act.ARCHIVE, who="ada"), [retry.key])
            working.start()
            working.join(LONG_ENOUGH)
            waited = working.is_alive()
        working.join()

        assert waited
        assert bench.sent() == []
        assert (retry.operation["state"], retry.operation["skipped"]) == ("completed", 1)


POINTS = (
    "marking.claimed",
    "marking.moved",
    "staging.purged",
    "staging.sent",
    "staging.published",
    "staging.committed",
    "forwarding.stamped",
    "forwarding.published",
    "forwarding.acked",
    "forwarding.recorded",
)


class Stopped(BaseException):
    """The process dies here."""


def meddle(bench: Bench, point: str, wanted: Act, ids: list[str], end: str) -> set[str]:
    """Do the act when the process comes to this point; return the messages it was done to."""
    done: set[str] = set()

    def do_it() -> None:
        done.update(set(ids) - set(act(bench, wanted, *ids)))
        if end == "killed":
            raise Stopped

    bench.at(point, do_it)
    try:
        bench.work()
    except Stopped:
        bench.restart()
        bench.work()
    return done


ENDS = ("alive", "killed")
ACTS = (Act.ARCHIVE, Act.RESOLVE, Act.RELEASE)


def walk_meddling() -> Iterator[object]:
    """Walk every act at every point; one of each belongs to the plain run, all to `-m kills`."""
    for (number, point), (turn, end) in product(enumerate(POINTS), enumerate(ENDS)):
        for place, wanted in enumerate(ACTS):
            is_its_turn = (number + turn) % len(ACTS) == place
            yield pytest.param(point, wanted, end, marks=[] if is_its_turn else pytest.mark.kills)


@pytest.mark.parametrize(("point", "wanted", "end"), [*walk_meddling()])
def test_an_act_at_any_point_lets_no_message_out_twice(
    bench: Bench, point: str, wanted: Act, end: str
) -> None:
    ids = bench.fail(3)
    operation = bench.ask(ids)

    done = meddle(bench, point, wanted, ids, end)

    row = bench.operation(operation)
    sent = bench.sent()
    in_doubt = set(ids) if (point, end) == ("forwarding.published", "killed") else set()
    assert {key for key in ids if sent.count(key) > 1} == in_doubt
    assert row["state"] == "completed"
    assert row["forwarded"] + row["skipped"] == row["total"]
    assert set(ids) == set(sent) | done
    assert wanted is not Act.ARCHIVE or done.isdisjoint(sent)
    assert broken_rules(bench) == []


@pytest.mark.parametrize(("wanted", "status"), [(Act.ARCHIVE, ARCHIVED), (Act.RESOLVE, RESOLVED)])
@pytest.mark.parametrize("point", POINTS)
def test_what_was_settled_on_the_way_stays_so(
    bench: Bench, point: str, wanted: Act, status: str
) -> None:
    ids = bench.fail(3)
    bench.ask(ids)

    done = meddle(bench, point, wanted, ids, "alive")

    assert {key for key, each in bench.statuses().items() if each == status} == done
