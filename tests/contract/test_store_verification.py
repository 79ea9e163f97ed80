"""Verification: nothing is off at any moment of a retry, and whatever is bent is found."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import delete, insert, select, text, update

from retrier.domain.wire import Refused
from retrier.events.processor import (
    BatchMarked,
    BatchOpened,
    BatchStaged,
    CompletionTried,
    CopiesPublished,
    MessagesClaimed,
    RestMoved,
    WindowRecorded,
    WindowSent,
    WindowStamped,
)
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.import_acts import stamp_import
from retrier.store.recording import record_received
from retrier.store.schema import (
    breaker_counts,
    ended_retries,
    failed_imports,
    failed_message_retries,
    failed_messages,
    ledger,
    outgoing,
    processing_attempts,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operation_canaries,
    retry_operations,
)
from retrier.store.verification import VerifiedRule, verify_store
from retrier.store.verification_rules import (
    APPROVAL_RULES,
    ARCHIVE_RULES,
    DEAD_RULES,
    EDIT_RULES,
    FIELD_RULES,
    OUTCOME_RULES,
    POLICY_RULES,
    STANDING_RULES,
    WORD_RULES,
)
from tests.contract.store_rows import again
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.factories import FAILED_AT, failed_import, failure
from tests.support.script import to_queue

COMMON = (
    BatchOpened.name,
    MessagesClaimed.name,
    BatchMarked.name,
    CopiesPublished.name,
    BatchStaged.name,
    WindowStamped.name,
    WindowSent.name,
    WindowRecorded.name,
    CompletionTried.name,
)

STEPS_OF_MARKING = (BatchOpened.name, MessagesClaimed.name)
NOBODY = "00000000-0000-4000-8000-000000000000"
NONE = 1_000
"""A number that nothing has."""


def broken(db: Database) -> dict[str, VerifiedRule]:
    return {each.rule: each for each in verify_store(db).rules if each.broken}


@pytest.fixture
def bench(database: Database) -> Bench:
    """Give a bench with three failed messages."""
    made = Bench(database)
    made.fail(3)
    return made


def stop_at(bench: Bench, point: str) -> None:
    """Let the processor die there. What is named is marked step by step on every database."""
    if point in STEPS_OF_MARKING:
        bench.ask(list(bench.statuses()))
    else:
        bench.ask_all()
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()
    bench.restart()


def change(db: Database, statement: Any) -> None:
    with db.engine.begin() as conn:
        conn.execute(statement)


def test_nothing_is_off_in_an_empty_database(database: Database) -> None:
    assert broken(database) == {}


@pytest.mark.parametrize("point", COMMON)
def test_nothing_is_off_wherever_the_processor_dies(bench: Bench, point: str) -> None:
    stop_at(bench, point)

    assert broken(bench.db) == {}


def test_nothing_is_off_after_every_outcome(bench: Bench) -> None:
    # Given one message that is confirmed, one that fails again, one that cannot be sent,
    # and one that fails again while it is staged
    first = failure(queue=QUEUE)
    bench.receive(first)
    confirmed, *_ = bench.statuses()
    bench.at(CopiesPublished.name, lambda: bench.receive(again(first, queue=QUEUE)))
    bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE))
    bench.ask_all()
    bench.ask(["nobody", confirmed])
    bench.work()
    bench.confirm(bench.sent()[0])

    assert broken(bench.db) == {}


def test_nothing_is_off_while_a_rest_is_staged_anew(bench: Bench) -> None:
    stop_at(bench, BatchStaged.name)
    bench.transport.broker.delete(STAGING)
    bench.kill_at(RestMoved.name)
    with pytest.raises(Killed):
        bench.work()

    assert [batch["status"] for batch in bench.batches()] == ["staging"]
    assert broken(bench.db) == {}


def first_message(bench: Bench) -> Any:
    return failed_messages.c.unique_message_id == min(bench.statuses())


def first_claim(bench: Bench) -> Any:
    return failed_message_retries.c.number == bench.message(min(bench.statuses()))["number"]


def counted(bench: Bench) -> dict[str, Any]:
    """Return what was counted for a breaker that there is not."""
    numbers = dict.fromkeys(("sent", "returned", "came_back", "confirmed"), 0)
    row = {"breaker_id": 7, "since": bench.clock.now(), "counted_by": NOBODY, "outcomes": ""}
    return {**row, **numbers}


def ended(bench: Bench) -> dict[str, Any]:
    """Return what is kept of a retry that ended, made of a claim in force."""
    claim, *_ = bench.claims().values()
    kept = {key: claim[key] for key in ("number", "retry_id", "operation_id")}
    now = bench.clock.now()
    return {**kept, "sending_since": now, "ended_at": now, "outcome": "failed"}


def over(bench: Bench) -> dict[str, Any]:
    """Return another operation, of no message."""
    (row,) = bench.rows(select(retry_operations))
    return {**row, "operation_id": NOBODY, "total": 0}


def too_small(bench: Bench) -> dict[str, Any]:
    """Return a canary of fewer messages than are claimed."""
    (row,) = bench.rows(select(retry_operations))
    asked = {"size": 1, "wait_ms": 0, "most_back": 0, "state": "sending", "retries": []}
    return {"operation_id": row["operation_id"], **asked}


BENT: dict[str, tuple[str, Callable[[Bench], Any]]] = {
    "a message whose retry was issued has the claim of that retry": (
        BatchStaged.name,
        lambda bench: (
            update(failed_messages).where(first_message(bench)).values(last_retry_id=NOBODY)
        ),
    ),
    "a message that is resolved or archived has no claim that could still be sent": (
        BatchStaged.name,
        lambda bench: update(failed_messages).where(first_message(bench)).values(status="archived"),
    ),
    "a claim was taken at the newest failure of its message, or at an earlier one": (
        BatchMarked.name,
        lambda _bench: update(failed_message_retries).values(failure_seq=NONE),
    ),
    "the claim of an unresolved message is of a batch in Marking or Staging": (
        BatchStaged.name,
        lambda bench: (
            update(failed_messages).where(first_message(bench)).values(status="unresolved")
        ),
    ),
    "a claim of a batch in Marking is not stamped, and one in Staging is not recorded": (
        MessagesClaimed.name,
        lambda bench: update(failed_message_retries).values(sending_since=bench.clock.now()),
    ),
    "a claim names the operation of its batch": (
        BatchMarked.name,
        lambda _bench: update(failed_message_retries).values(operation_id=NOBODY),
    ),
    "the batch in Forwarding, and no other, is the one now forwarding": (
        BatchStaged.name,
        lambda _bench: delete(retry_batch_now_forwarding),
    ),
    "a batch has no more claims than its size": (
        BatchMarked.name,
        lambda _bench: update(retry_batches).values(initial_size=2),
    ),
    "a batch in Forwarding has no more messages than it was marked with": (
        BatchStaged.name,
        lambda _bench: update(retry_batches).values(message_count=4),
    ),
    "every batch belongs to an operation that is under way": (
        BatchMarked.name,
        lambda _bench: update(retry_operations).values(state="waiting"),
    ),
    "an operation counts no more messages than it was asked for": (
        BatchMarked.name,
        lambda _bench: update(retry_operations).values(skipped=1),
    ),
    "an operation is cancelled only if somebody asked for it": (
        BatchMarked.name,
        lambda bench: insert(retry_operations).values(
            {**over(bench), "state": "cancelled", "completed_at": bench.clock.now()}
        ),
    ),
    "before its canary is judged, an operation sends nothing else": (
        BatchMarked.name,
        lambda bench: insert(retry_operation_canaries).values(too_small(bench)),
    ),
    "an operation is passed over only if it left messages out": (
        BatchMarked.name,
        lambda _bench: update(retry_operations).values(passed_over=True),
    ),
    "a message of a stream names its queue": (
        BatchMarked.name,
        lambda bench: update(failed_messages).where(first_message(bench)).values(stream_id="s"),
    ),
    "only an operation that is passed over looks again": (
        BatchMarked.name,
        lambda bench: update(retry_operations).values(look_again_at=bench.clock.now()),
    ),
    "every delivery taken off an error queue is in the ledger under one kind": (
        BatchMarked.name,
        lambda _bench: update(ledger).where(ledger.c.entry == "taken_off").values(count=4),
    ),
    "the attempts that messages count are the attempts stored": (
        BatchMarked.name,
        lambda bench: update(failed_messages).where(first_message(bench)).values(attempts=2),
    ),
    "a message shows one of its own attempts, with the same cause": (
        BatchMarked.name,
        lambda bench: update(failed_messages).where(first_message(bench)).values(attempt_id=NONE),
    ),
    "an attempt without a body names one of its message's that has it": (
        BatchMarked.name,
        lambda _bench: update(processing_attempts).values(same_body_as=NONE, body=None),
    ),
    "every ended retry is of a message that is there": (
        BatchMarked.name,
        lambda bench: insert(ended_retries).values({**ended(bench), "number": NONE}),
    ),
    "a retry that has ended has no claim": (
        WindowSent.name,
        lambda bench: insert(ended_retries).values(ended(bench)),
    ),
    "a claim that a breaker counts names one that is there": (
        BatchMarked.name,
        lambda bench: update(failed_message_retries).where(first_claim(bench)).values(breaker_id=7),
    ),
    "what was counted names a breaker that is there": (
        BatchMarked.name,
        lambda bench: insert(breaker_counts).values(counted(bench)),
    ),
    "a message presumed to have succeeded was sent": (
        BatchMarked.name,
        lambda bench: (
            update(failed_messages)
            .where(first_message(bench))
            .values(status="resolved", resolution="presumed")
        ),
    ),
}


@pytest.mark.parametrize("rule", BENT)
def test_what_is_bent_breaks_its_rule_and_no_other(bench: Bench, rule: str) -> None:
    point, bend = BENT[rule]
    stop_at(bench, point)

    change(bench.db, bend(bench))

    assert list(broken(bench.db)) == [rule]


def test_a_message_that_vanished_is_missed_by_the_ledger(bench: Bench) -> None:
    number = bench.message(min(bench.statuses()))["number"]
    for table in (processing_attempts, failed_messages):
        change(bench.db, delete(table).where(table.c.number == number))

    assert list(broken(bench.db)) == [
        "the ledger has as many new messages as there are failed messages"
    ]


def test_an_attempt_of_a_message_that_vanished_is_found(bench: Bench) -> None:
    change(bench.db, delete(failed_messages).where(first_message(bench)))

    assert "every attempt is of a message that is there" in broken(bench.db)


def test_a_claim_of_a_message_that_vanished_is_found(bench: Bench) -> None:
    stop_at(bench, BatchMarked.name)

    change(bench.db, delete(failed_messages).where(first_message(bench)))

    assert "every claim is of a message that is there" in broken(bench.db)


def test_a_completed_operation_that_does_not_add_up_is_found(bench: Bench) -> None:
    bench.ask_all()
    bench.work()

    change(bench.db, update(retry_operations).values(forwarded=2))

    assert list(broken(bench.db)) == [
        "the counts of an operation that is over add up to its total",
        "what was sent of an operation has an outcome, or a claim that waits for it",
    ]


def test_an_acknowledged_operation_that_is_not_over_is_found(bench: Bench) -> None:
    bench.ask_all()

    change(bench.db, update(retry_operations).values(acknowledged_at=FAILED_AT))

    assert list(broken(bench.db)) == ["only an operation that is over is acknowledged"]


def test_a_claim_left_over_without_a_record_is_found(bench: Bench) -> None:
    bench.ask_all()
    bench.work()

    change(bench.db, update(retry_operations).values(forwarded=0, skipped=3, total=6))
    change(bench.db, update(failed_message_retries).values(forwarded_at=None))

    assert "a claim without a batch alive is recorded as forwarded" in broken(bench.db)


def test_a_second_forwarding_batch_is_found(bench: Bench) -> None:
    stop_at(bench, BatchStaged.name)
    other = bench.ask(["nobody"]).operation_id
    (row,) = bench.batches()

    change(
        bench.db,
        insert(retry_batches).values({**row, "batch_id": str(uuid4()), "operation_id": other}),
    )

    assert "the batch in Forwarding, and no other, is the one now forwarding" in broken(bench.db)


def test_an_attempt_whose_cause_vanished_is_found(bench: Bench) -> None:
    # Given a message that failed twice
    first = failure(queue=QUEUE)
    bench.receive(first)
    bench.receive(again(first, queue=QUEUE))
    earlier = processing_attempts.c.fingerprint == first.fingerprint

    change(bench.db, update(processing_attempts).where(earlier).values(cause_id=NONE))

    assert list(broken(bench.db)) == ["the cause of every attempt is there"]


def test_a_copy_to_be_sent_whose_attempt_vanished_is_found(bench: Bench) -> None:
    record_received(bench.db, [failure(queue=QUEUE)], instance="test", forward_to="log")
    assert broken(bench.db) == {}

    change(bench.db, update(outgoing).values(attempt_id=NONE))

    assert list(broken(bench.db)) == ["every outgoing row names an attempt that is there"]


def test_a_claim_that_marking_took_too_late_breaks_no_rule(bench: Bench) -> None:
    """No message is locked then: one that was archived just now is dropped at staging."""
    stop_at(bench, BatchMarked.name)

    change(bench.db, update(failed_messages).where(first_message(bench)).values(status="archived"))

    assert broken(bench.db) == {}


def test_a_finding_counts_all_and_names_some(bench: Bench) -> None:
    bench.fail(20)
    stop_at(bench, BatchStaged.name)

    change(bench.db, delete(failed_message_retries))

    (finding,) = broken(bench.db).values()
    assert (finding.broken, len(finding.ids)) == (23, 10)
    assert set(finding.ids) <= set(bench.statuses())


def test_an_import_that_is_kept_though_it_was_read_again_is_found(bench: Bench) -> None:
    bench.receive(failed_import())
    counted = insert(ledger).values(instance="here", entry="reimported", count=1)

    change(bench.db, counted)

    assert "there are no more failed imports than were counted and not read again" in broken(
        bench.db
    )


def test_an_import_that_vanished_while_it_was_sent_is_found(bench: Bench) -> None:
    """Only where no foreign key is looked at, as in SQLite's own shell."""
    bench.receive(failed_import())
    with bench.db.engine.begin() as conn:
        import_id = conn.execute(select(failed_imports.c.import_id)).scalar_one()
    stamp_import(bench.db, import_id, "orders", again=False, who="ada")

    def delete_by_hand(tx: Transaction) -> None:
        if not bench.db.is_sqlite:
            tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(delete(failed_imports))

    bench.db.restructure(delete_by_hand)

    assert list(broken(bench.db)) == [
        "what is being sent of failed imports is kept until it is recorded"
    ]


def test_an_import_in_doubt_breaks_no_rule(bench: Bench) -> None:
    bench.receive(failed_import())
    with bench.db.engine.begin() as conn:
        import_id = conn.execute(select(failed_imports.c.import_id)).scalar_one()

    stamp_import(bench.db, import_id, "orders", again=False, who="ada")

    assert broken(bench.db) == {}


def test_every_rule_can_be_broken(database: Database) -> None:
    bent = {
        *BENT,
        "a claim without a batch alive is recorded as forwarded",
        "the ledger has as many new messages as there are failed messages",
        "the counts of an operation that is over add up to its total",
        "only an operation that is over is acknowledged",
        "every claim is of a message that is there",
        "every attempt is of a message that is there",
        "the cause of every attempt is there",
        "the text by which a message is found is there",  # in test_store_texts.py
        "there are no more failed imports than were counted and not read again",
        "what is being sent of failed imports is kept until it is recorded",
        "every outgoing row names an attempt that is there",
        "the counts that are kept of messages are those of the messages",  # ..._message_counts.py
        *APPROVAL_RULES,  # in test_store_approvals.py
        *ARCHIVE_RULES,  # in test_store_archive_keeping.py
        *STANDING_RULES,  # in test_store_due.py
        *OUTCOME_RULES,  # in test_store_operation_outcomes.py
        *EDIT_RULES,  # in test_store_edits.py
        *FIELD_RULES,  # in test_store_fields.py
        *WORD_RULES,  # in test_store_words.py
        *DEAD_RULES,  # in test_store_dead_messages.py
        *POLICY_RULES,  # in test_store_policy_rules.py
    }

    assert {each.rule for each in verify_store(database).rules} == bent


def test_batches_alive_are_counted(bench: Bench) -> None:
    stop_at(bench, BatchMarked.name)

    assert verify_store(bench.db).batches == 1
