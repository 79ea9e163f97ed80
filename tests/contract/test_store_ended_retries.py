"""Ended retries: what is kept of a claim under which a message was sent, or may have been."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_operation import RetryTerms
from retrier.domain.wire import Refused
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.pending import presume
from retrier.store.schema import ended_retries
from retrier.store.verification import verify_store
from tests.contract.store_retries import BEING_SENT, CLAIMED, SENT, STAGED, Retry, bring_to
from tests.contract.store_rows import again, claims, rows
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id
from tests.support.script import to_queue

LATER = FAILED_AT + timedelta(minutes=5)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def act(retry: Retry, wanted: Act) -> None:
    acted = apply_action(retry.bench.db, Action(act=wanted, who="ada"), [retry.key])
    assert acted.done == (retry.key,)


ENDS: dict[RetryEnd, Callable[[Retry], object]] = {
    RetryEnd.FAILED: lambda retry: retry.fail(retry_id=retry.retry_id),
    RetryEnd.CONFIRMED: lambda retry: retry.confirm(),
    RetryEnd.RESOLVED: lambda retry: act(retry, Act.RESOLVE),
    RetryEnd.RELEASED: lambda retry: act(retry, Act.RELEASE),
    RetryEnd.PRESUMED: lambda retry: presume(
        retry.bench.db, retry.bench.context.lease.fence, timedelta(0), [retry.message["number"]]
    ),
}
"""How a retry may end that is recorded as sent."""

UNSENT: dict[str, Callable[[Retry], object]] = {
    "failed": lambda retry: retry.fail(time_of_failure=LATER),
    "confirmed": lambda retry: retry.confirm(succeeded_at=LATER),
    "resolved": lambda retry: act(retry, Act.RESOLVE),
    "archived": lambda retry: act(retry, Act.ARCHIVE),
}
"""How a retry may end that is not stamped yet."""


def kept(bench: Bench) -> list[dict[str, Any]]:
    return rows(bench.db, ended_retries)


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


class TestARetryThatWasSent:
    @pytest.mark.parametrize("outcome", ENDS)
    def test_is_kept_with_its_id_operation_and_times(self, bench: Bench, outcome: RetryEnd) -> None:
        retry = bring_to(bench, SENT)
        claim = claims(bench.db)[retry.key]

        ENDS[outcome](retry)

        (row,) = kept(bench)
        assert row.pop("ended_at") >= claim["forwarded_at"]
        assert row == {
            "number": retry.message["number"],
            "retry_id": retry.retry_id,
            "operation_id": retry.created.operation_id,
            "sending_since": claim["sending_since"],
            "forwarded_at": claim["forwarded_at"],
            "outcome": outcome,
        }
        assert broken_rules(bench) == []

    def test_is_not_kept_while_it_is_under_way(self, bench: Bench) -> None:
        bring_to(bench, SENT)

        assert kept(bench) == []

    def test_ends_once_whatever_comes_later(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        retry.fail(retry_id=retry.retry_id)

        retry.fail(retry_id=retry.retry_id, time_of_failure=LATER)
        retry.confirm(succeeded_at=LATER + timedelta(minutes=1))

        assert [row["outcome"] for row in kept(bench)] == ["failed"]

    def test_failed_if_one_batch_holds_a_failure_that_names_no_retry_and_its_confirmation(
        self, bench: Bench
    ) -> None:
        # Given both in one batch, which leave it resolved
        retry = bring_to(bench, SENT)
        failed = again(retry.first, queue=QUEUE)
        bench.receive(failed, confirmation(retry.key, succeeded_at=LATER))
        assert [row["outcome"] for row in kept(bench)] == ["failed"]

        # When the second copy of the retry fails
        retry.fail(retry_id=retry.retry_id, time_of_failure=LATER + timedelta(minutes=1))

        # Then the retry is not counted again, as if they had come in two batches
        assert retry.message["status"] == "unresolved"
        assert retry.message["failure_count"] == 1

    def test_is_kept_beside_those_before_it(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        retry.fail(retry_id=retry.retry_id)
        bench.ask([retry.key])
        bench.work()
        second = bench.retry_id(retry.key)

        retry.confirm()

        told = {row["retry_id"]: row["outcome"] for row in kept(bench)}
        assert told == {retry.retry_id: "failed", second: "confirmed"}

    def test_of_each_message_is_kept_if_many_end_in_one_batch(self, bench: Bench) -> None:
        first, second = bring_to(bench, SENT), bring_to(bench, SENT)

        bench.receive(first.first, second.first)

        assert {row["retry_id"] for row in kept(bench)} == {first.retry_id, second.retry_id}

    def test_is_kept_without_those_that_are_under_way(self, bench: Bench) -> None:
        presumed, _ = bring_to(bench, SENT), bring_to(bench, SENT)

        ENDS[RetryEnd.PRESUMED](presumed)

        assert [row["retry_id"] for row in kept(bench)] == [presumed.retry_id]


class TestTheSecondCopyOfARetryThatEnded:
    """It fails late: it is known by where the retry was sent, and by what that went without."""

    @pytest.mark.parametrize(
        ("terms", "arrived"),
        [
            (RetryTerms(destination="mail"), {"queue": "mail", "headers": {"x-large": "l"}}),
            (RetryTerms(drop_headers=("x-large",)), {"queue": QUEUE, "headers": {}}),
        ],
        ids=["sent elsewhere", "without a header"],
    )
    def test_is_of_its_message(
        self, bench: Bench, terms: RetryTerms, arrived: dict[str, Any]
    ) -> None:
        first = failure(queue=QUEUE, headers={"x-large": "l"})
        bench.receive(first)
        bench.ask_all(terms)
        bench.work()
        key, retry_id = unique_id(first), bench.retry_id(unique_id(first))
        bench.confirm(key)

        bench.receive(again(first, **arrived | {"stamped_id": key, "retry_id": retry_id}))

        assert bench.message(key)["attempts"] == 2


class TestARetryThatWasBeingSent:
    @pytest.mark.parametrize("outcome", [RetryEnd.FAILED, RetryEnd.CONFIRMED])
    def test_is_kept_as_sent_since_and_not_recorded(self, bench: Bench, outcome: RetryEnd) -> None:
        retry = bring_to(bench, BEING_SENT)
        since = claims(bench.db)[retry.key]["sending_since"]

        ENDS[outcome](retry)

        (row,) = kept(bench)
        assert (row["outcome"], row["sending_since"]) == (outcome, since)
        assert row["forwarded_at"] is None

    def test_is_kept_as_reverted_if_it_could_not_be_sent(self, bench: Bench) -> None:
        (key,) = bench.fail()
        created = bench.ask_all()
        bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE))

        bench.work()

        (row,) = kept(bench)
        assert (row["outcome"], row["forwarded_at"]) == ("reverted", None)
        assert row["operation_id"] == created.operation_id
        assert row["number"] == bench.message(key)["number"]
        assert broken_rules(bench) == []


class TestARetryThatWasNeverSent:
    @pytest.mark.parametrize("way", UNSENT)
    @pytest.mark.parametrize("stage", [CLAIMED, STAGED])
    def test_leaves_nothing(self, bench: Bench, stage: str, way: str) -> None:
        retry = bring_to(bench, stage)

        UNSENT[way](retry)

        assert (kept(bench), claims(bench.db)) == ([], {})

    def test_leaves_nothing_if_no_copy_of_its_message_can_be_made(self, bench: Bench) -> None:
        bench.fail(queue="a longer name than any queue has" * 10)
        created = bench.ask_all()

        bench.work()

        assert bench.operation(created)["failed"] == 1
        assert (kept(bench), claims(bench.db)) == ([], {})
