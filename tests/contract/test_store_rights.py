"""Rights to queues, where the act is done: a message may fail elsewhere after its queue was looked at."""

from datetime import timedelta
from typing import ClassVar

import pytest
from sqlalchemy import select

from retrier.domain.access import NOT_YOURS, Access, AccessRole, How
from retrier.domain.archive_operation import Act, ActRefusal, ArchiveRequest
from retrier.domain.edits import Changes, EditRefusal, EditRefused, EditRequest
from retrier.domain.retry_operation import RetryRequest, RetryTerms, RetryType
from retrier.domain.selection import Selection
from retrier.edits import Edits
from retrier.events.event import ignore
from retrier.gateway import Gateway
from retrier.guard import Guard
from retrier.store.archive import Action, ask_archive
from retrier.store.archive_lists import find_refused
from retrier.store.dead_messages import declare_dead
from retrier.store.engine.database import Database
from retrier.store.operation_lists import find_operation
from retrier.store.operation_requests import create_operation
from retrier.store.recording import record_received
from retrier.store.schema import retry_operation_messages
from tests.contract.store_rows import again
from tests.support.acting import apply_action
from tests.support.archiving import work_off_all
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.imports import make_imports

OWN, OTHER = QUEUE, "billing"
WITHIN = (f"{QUEUE}*",)
ASKS = Access(name="ci", how=How.TOKEN, role=AccessRole.ADMIN, queues=WITHIN)


@pytest.fixture
def bench(database: Database) -> Bench:
    made = Bench(database)
    made.transport.broker.declare(OTHER)
    return made


def named(*ids: str) -> Selection:
    return Selection(ids=ids, within=WITHIN)


def retry_of(selection: Selection) -> RetryRequest:
    return RetryRequest(
        retry_type=RetryType.MULTIPLE_MESSAGES,
        selection=selection,
        originator="named",
        requested_by="ci",
    )


def archive_of(selection: Selection) -> ArchiveRequest:
    return ArchiveRequest(
        act=Act.ARCHIVE, selection=selection, originator="named", requested_by="ci"
    )


def skipped(bench: Bench) -> list[str]:
    named = retry_operation_messages.c
    query = select(named.skipped_because).where(named.skipped_because.is_not(None))
    return [str(row["skipped_because"]) for row in bench.rows(query)]


def test_a_cut_leaves_alone_what_fails_elsewhere_by_now(bench: Bench) -> None:
    (mine,), (theirs,) = bench.fail(queue=OWN), bench.fail(queue=OTHER)

    create_operation(bench.db, retry_of(named(mine, theirs)))
    bench.work()

    assert skipped(bench) == [NOT_YOURS]
    assert bench.statuses() == {mine: "retry_issued", theirs: "unresolved"}


def test_the_answer_says_so(bench: Bench) -> None:
    (theirs,) = bench.fail(queue=OTHER)

    made = create_operation(bench.db, retry_of(named(theirs)))

    assert made.skipped == {theirs: NOT_YOURS}


@pytest.mark.parametrize("at_once", [1000, 0], ids=["at once", "worked off"])
def test_an_archive_leaves_it_alone(bench: Bench, at_once: int) -> None:
    (mine,), (theirs,) = bench.fail(queue=OWN), bench.fail(queue=OTHER)

    ask_archive(bench.db, archive_of(named(mine, theirs)), at_once)
    work_off_all(bench)

    assert bench.statuses() == {mine: "archived", theirs: "unresolved"}


def test_who_sees_some_queues_is_not_told_which_others_were_named(bench: Bench) -> None:
    (mine,), (theirs,) = bench.fail(queue=OWN), bench.fail(queue=OTHER)
    request = archive_of(Selection(ids=(mine, theirs)))
    ask_archive(bench.db, request, 0)
    work_off_all(bench)

    asked = ask_archive(bench.db, request, 0)
    work_off_all(bench)
    refused = find_refused(bench.db, asked.operation.operation_id)
    narrow = bench.db.narrowed(WITHIN)

    assert set(refused) == {mine, theirs}
    assert set(find_refused(narrow, asked.operation.operation_id)) == {mine}


def test_it_is_not_declared_dead(bench: Bench) -> None:
    (theirs,) = bench.fail(queue=OTHER)

    refusal = declare_dead(bench.db, theirs, why="gone", who="ci", within=WITHIN)

    assert refusal is ActRefusal.CHANGED
    assert bench.message(theirs)["disposition"] == "manual"


def test_a_retry_of_what_is_pending_keeps_the_rights_of_who_asked(bench: Bench) -> None:
    (mine,) = bench.fail(queue=OWN)
    bench.ask([mine])
    bench.work()
    gateway = Gateway(bench.db, lambda: None, imports=make_imports(bench.db)).of(ASKS)

    again = gateway.retry_again(retry_of(Selection(ids=(mine,))))

    found = find_operation(bench.db, again.operation_ids[0])
    assert found is not None
    assert found.operation.selection.within == WITHIN


FIRST = failure(queue=OWN)


class MovingGuard(Guard):
    """A guard behind whose look the retry `late` of a message fails, on the queue it was sent to."""

    late: ClassVar[str]

    def must_own_message(self, unique_id: str) -> None:
        super().must_own_message(unique_id)
        later = FAILED_AT + timedelta(minutes=1)
        stamps = {"stamped_id": unique_id, "retry_id": self.late}
        moved = again(FIRST, queue=OTHER, time_of_failure=later, **stamps)
        record_received(self.db, [moved], instance="test")


def test_an_edit_is_of_the_failure_whose_queue_was_looked_at(bench: Bench) -> None:
    bench.receive(FIRST)
    mine = unique_id(FIRST)
    bench.ask([mine], RetryTerms(destination=OTHER))
    bench.work()
    MovingGuard.late = str(bench.retry_id(mine))
    apply_action(bench.db, Action(act=Act.RELEASE, who="ada"), [mine])
    guard = MovingGuard(bench.db, ASKS)
    edits = Edits(bench.db, lambda: None, ignore, bench.transport.codec, guard)

    answer = edits.ask(EditRequest(unique_message_id=mine, changes=Changes(text="{}"), who="ci"))

    assert isinstance(answer, EditRefused)
    assert answer.why is EditRefusal.CHANGED
    assert bench.statuses() == {mine: "unresolved"}
