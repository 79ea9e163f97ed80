"""Acts on more messages than are done at once: written down, and worked off chunk by chunk."""

import pytest

from retrier.domain.archive_operation import Act, ActRefusal, ArchiveOperationState
from retrier.domain.selection import Selection
from retrier.errors import KeyReused, LeaseLost
from retrier.store.archive import do_at_once, find_few, work_off
from retrier.store.archive_lists import find_archive_chunk, find_refused
from retrier.store.engine.database import Database
from retrier.store.event_log import find_bulk_acts
from retrier.store.schema import event_log
from retrier.store.selections import take_cut_off
from retrier.store.verification import verify_store
from tests.contract.store_retries import BEING_SENT, CLAIMED, SENT, STAGED, bring_to
from tests.contract.store_rows import again, message, rows
from tests.support.acting import Action, apply_action
from tests.support.archiving import (
    CHUNK,
    ask,
    make_archives,
    make_archiving,
    request_for,
    state_of,
    work_off_all,
)
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import failure, unique_id

MANY = 5
"""More than are done at once, and no whole number of chunks."""


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


def counts(bench: Bench, kind: str) -> int:
    return sum(row["kind"] == kind for row in rows(bench.db, event_log))


class TestARequestAboutFew:
    def test_is_done_when_it_is_answered(self, bench: Bench) -> None:
        ids = bench.fail(CHUNK)

        asked = ask(bench, queue=QUEUE)

        assert (asked.state, asked.done) == (ArchiveOperationState.COMPLETED, CHUNK)
        assert bench.statuses() == dict.fromkeys(ids, "archived")

    def test_leaves_its_id_in_each_message_and_event(self, bench: Bench) -> None:
        (key,) = bench.fail()

        asked = ask(bench, ids=(key,))

        assert message(bench.db, key)["archive_operation_id"] == asked.operation_id
        (event,) = rows(bench.db, event_log)
        assert (event["unique_message_id"], event["operation_id"]) == (key, asked.operation_id)

    def test_counts_the_reasons_of_what_it_left(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)

        asked = ask(bench, ids=(retry.key, "nobody"))

        assert asked.skipped_because == {ActRefusal.SENT: 1, ActRefusal.UNKNOWN: 1}
        assert (asked.total, asked.skipped) == (2, 2)


class TestARequestThatWasCounted:
    """It names the number up to which a preview counted."""

    @pytest.mark.parametrize("many", [1, MANY])
    def test_leaves_what_failed_since(self, bench: Bench, many: int) -> None:
        counted = bench.fail(many)
        wanted = Selection(queue=QUEUE, counted_to=take_cut_off(bench.db))
        request = request_for(Act.RESOLVE, wanted)
        later = bench.fail(many)

        make_archives(bench.db).ask(request)
        work_off_all(bench)

        resolved, left = dict.fromkeys(counted, "resolved"), dict.fromkeys(later, "unresolved")
        assert bench.statuses() == resolved | left
        assert broken_rules(bench) == []

    def test_leaves_what_failed_again_since(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        bench.receive(first)
        wanted = Selection(queue=QUEUE, counted_to=take_cut_off(bench.db))
        request = request_for(Act.RESOLVE, wanted)
        bench.receive(again(first, queue=QUEUE))

        make_archives(bench.db).ask(request)

        assert bench.statuses() == {unique_id(first): "unresolved"}


class TestARequestAboutMany:
    def test_is_written_down_and_changes_nothing_yet(self, bench: Bench) -> None:
        bench.fail(MANY)

        asked = ask(bench, queue=QUEUE)

        assert (asked.state, asked.total, asked.done) == (ArchiveOperationState.WAITING, MANY, 0)
        assert set(bench.statuses().values()) == {"unresolved"}

    def test_is_worked_off_chunk_by_chunk(self, bench: Bench) -> None:
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)

        chunks = work_off_all(bench)

        found = state_of(bench, asked)
        assert (chunks, found.state, found.done) == (3, ArchiveOperationState.COMPLETED, MANY)
        assert set(bench.statuses().values()) == {"archived"}
        assert broken_rules(bench) == []

    def test_shows_how_far_it_is(self, bench: Bench) -> None:
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)

        make_archiving(bench).work_once()

        found = state_of(bench, asked)
        assert (found.state, found.remaining) == (ArchiveOperationState.RUNNING, MANY - CHUNK)

    def test_that_fills_its_last_chunk_ends_all_the_same(self, bench: Bench) -> None:
        bench.fail(2 * CHUNK)
        asked = ask(bench, queue=QUEUE)

        work_off_all(bench)

        assert state_of(bench, asked).state is ArchiveOperationState.COMPLETED

    def test_leaves_out_what_fails_after_it(self, bench: Bench) -> None:
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        (late,) = bench.fail()

        work_off_all(bench)

        assert bench.statuses()[late] == "unresolved"
        assert state_of(bench, asked).done == MANY

    def test_counts_what_left_the_selection_before_its_turn(self, bench: Bench) -> None:
        *_, last = bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        apply_action(bench.db, Action(act=Act.RESOLVE, who="bob"), [last])

        work_off_all(bench)

        found = state_of(bench, asked)
        assert (found.done, found.skipped_because) == (MANY - 1, {ActRefusal.CHANGED: 1})
        assert broken_rules(bench) == []

    def test_by_name_says_of_each_why_it_was_left(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        free = bench.fail(2)
        asked = ask(bench, ids=(free[0].upper(), "nobody", retry.key, free[1], free[0]))

        work_off_all(bench)

        found = state_of(bench, asked)
        assert (found.total, found.done, found.skipped) == (4, 2, 2)
        assert find_refused(bench.db, asked.operation_id) == {
            "nobody": ActRefusal.UNKNOWN,
            retry.key: ActRefusal.SENT,
        }

    def test_resolves_pending_retries_too(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        archives = make_archives(bench.db, at_once=0)
        asked = archives.ask(request_for(Act.RESOLVE, Selection(pending=True))).operation

        work_off_all(bench)

        assert state_of(bench, asked).done == 1
        assert retry.message["status"] == "resolved"

    def test_is_the_same_under_the_same_key(self, bench: Bench) -> None:
        bench.fail(MANY)
        archives = make_archives(bench.db)
        request = request_for(Act.ARCHIVE, Selection(queue=QUEUE), key="monday")

        first, again = archives.ask(request), archives.ask(request)
        work_off_all(bench)
        later = archives.ask(request)

        ids = {each.operation.operation_id for each in (first, again, later)}
        assert (len(ids), first.repeated, again.repeated) == (1, False, True)
        assert later.operation.done == MANY

    def test_is_refused_under_the_key_of_another(self, bench: Bench) -> None:
        bench.fail(MANY)
        archives = make_archives(bench.db)
        archives.ask(request_for(Act.ARCHIVE, Selection(queue=QUEUE), key="monday"))

        with pytest.raises(KeyReused):
            archives.ask(request_for(Act.ARCHIVE, Selection(queue="other"), key="monday"))

    def test_leaves_one_event_for_a_chunk_by_which_each_message_is_found(
        self, bench: Bench
    ) -> None:
        ids = bench.fail(MANY)
        (other,) = bench.fail(queue="other")
        asked = ask(bench, queue=QUEUE)
        work_off_all(bench)

        def found(key: str) -> list[str | None]:
            number = message(bench.db, key)["number"]
            return [
                each.operation_id for each in bench.db.read(lambda tx: find_bulk_acts(tx, number))
            ]

        assert counts(bench, "messages_archived") == 3
        assert [found(key) for key in ids] == [[asked.operation_id]] * MANY
        assert found(other) == []


class TestUndo:
    def test_takes_back_what_it_archived_and_nothing_else(self, bench: Bench) -> None:
        (before,) = bench.fail()
        ask(bench, ids=(before,))
        ids = bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        work_off_all(bench)

        undone = undo(bench, asked.operation_id)
        work_off_all(bench)

        assert bench.statuses() == {before: "archived", **dict.fromkeys(ids, "unresolved")}
        assert state_of(bench, undone).undo_of == asked.operation_id
        assert broken_rules(bench) == []

    def test_leaves_alone_what_was_archived_again_since(self, bench: Bench) -> None:
        ids = bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        work_off_all(bench)
        ask(bench, Act.UNARCHIVE, ids=(ids[0],))
        ask(bench, ids=(ids[0],))

        undo(bench, asked.operation_id)
        work_off_all(bench)

        assert bench.statuses()[ids[0]] == "archived"

    def test_of_one_that_still_runs_goes_behind_it(self, bench: Bench) -> None:
        ids = bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        make_archiving(bench).work_once()

        undone = undo(bench, asked.operation_id)
        work_off_all(bench)

        assert bench.statuses() == dict.fromkeys(ids, "unresolved")
        found = state_of(bench, undone)
        assert (found.total, found.done) == (MANY, MANY)
        assert broken_rules(bench) == []

    def test_a_group_taken_back_while_it_is_archived_is_back(self, bench: Bench) -> None:
        ids = bench.fail(MANY)
        ask(bench, queue=QUEUE)

        ask(bench, Act.UNARCHIVE, queue=QUEUE)
        work_off_all(bench)

        assert bench.statuses() == dict.fromkeys(ids, "unresolved")


def undo(bench: Bench, operation_id: str):  # type: ignore[no-untyped-def]
    asked = make_archives(bench.db).undo(
        operation_id, lambda still: request_for(Act.UNARCHIVE, still)
    )
    return asked.operation  # type: ignore[union-attr]


class TestAKill:
    @pytest.mark.parametrize("time", [1, 2, 3])
    def test_between_two_chunks_leaves_the_rest_to_the_next_process(
        self, bench: Bench, time: int
    ) -> None:
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        bench.kill_at("archive.chunk_done", time=time)

        with pytest.raises(Killed):
            work_off_all(bench)
        bench.restart()
        work_off_all(bench)

        found = state_of(bench, asked)
        assert (found.done, found.skipped, found.state) == (MANY, 0, "completed")
        assert counts(bench, "archive_completed") == 1

    def test_of_the_holder_leaves_its_chunk_to_one_process_only(self, bench: Bench) -> None:
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        fence = bench.context.lease.fence
        chunk = find_archive_chunk(bench.db, asked, CHUNK)
        bench.lose_lease()

        with pytest.raises(LeaseLost):
            work_off(bench.db, fence, asked, chunk)

        assert state_of(bench, asked).cursor == 0
        assert set(bench.statuses().values()) == {"unresolved"}

    def test_a_chunk_that_was_done_is_not_done_again(self, bench: Bench) -> None:
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        fence = bench.context.lease.fence
        chunk = find_archive_chunk(bench.db, asked, CHUNK)
        work_off(bench.db, fence, asked, chunk)

        assert work_off(bench.db, fence, asked, chunk) is None
        assert state_of(bench, asked).done == CHUNK


class TestAFailureAfterTheRequest:
    def test_is_not_archived_though_its_chunk_was_looked_up_before(self, bench: Bench) -> None:
        # Given a chunk that is looked up, and one of its messages fails anew before it is locked
        first = failure(queue=QUEUE)
        bench.receive(first)
        bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        chunk = find_archive_chunk(bench.db, asked, CHUNK)
        bench.receive(again(first, queue=QUEUE))

        outcome = work_off(bench.db, bench.context.lease.fence, asked, chunk)

        assert outcome is not None
        assert (outcome.done, outcome.skipped) == (CHUNK - 1, 1)
        assert bench.statuses()[unique_id(first)] == "unresolved"

    def test_is_not_archived_by_a_request_about_few_either(self, bench: Bench) -> None:
        # Given a request whose messages are looked up, and one fails anew before they are locked
        first = failure(queue=QUEUE)
        bench.receive(first)
        request = request_for(Act.ARCHIVE, Selection(queue=QUEUE))
        few = find_few(bench.db, request, CHUNK)
        bench.receive(again(first, queue=QUEUE))

        assert few is not None
        asked = do_at_once(bench.db, request, few)

        assert (asked.operation.done, asked.operation.skipped) == (0, 1)
        assert bench.statuses() == {unique_id(first): "unresolved"}


class TestARetryOfTheSameMessages:
    @pytest.mark.parametrize("stage", [CLAIMED, STAGED])
    def test_gives_up_what_it_has_not_sent(self, bench: Bench, stage: str) -> None:
        retry = bring_to(bench, stage)
        bench.fail(MANY)
        ids = tuple(bench.statuses())
        ask(bench, ids=ids)

        work_off_all(bench)

        assert retry.message["status"] == "archived"
        assert broken_rules(bench) == []

    def test_keeps_what_is_being_sent(self, bench: Bench) -> None:
        retry = bring_to(bench, BEING_SENT)
        ids = bench.fail(MANY)
        asked = ask(bench, ids=(retry.key, *ids))

        work_off_all(bench)

        assert retry.message["status"] == "retry_issued"
        assert state_of(bench, asked).skipped_because == {ActRefusal.ON_ITS_WAY: 1}

    def test_runs_beside_the_archive_and_nothing_is_lost_or_done_twice(self, bench: Bench) -> None:
        ids = bench.fail(MANY)
        asked = ask(bench, queue=QUEUE)
        make_archiving(bench).work_once()

        retried = bench.ask_all(queue=QUEUE)
        bench.turn()
        work_off_all(bench)
        bench.work()

        found, operation = state_of(bench, asked), bench.operation(retried)
        assert found.done + found.skipped == MANY
        sent = bench.sent()
        assert len(sent) == len(set(sent)) == operation["forwarded"]
        archived = {key for key, status in bench.statuses().items() if status == "archived"}
        assert archived | set(sent) == set(ids)
        assert operation["forwarded"] + operation["skipped"] == operation["total"]
        assert broken_rules(bench) == []
