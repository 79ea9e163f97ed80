"""Operations, batches, claims and the processor, while a retry is under way."""

from collections.abc import Sequence
from typing import Any

import pytest

from retrier.domain.retry_batch import Ejected, RetryBatch, StagedCopies, WindowResult
from retrier.store.batches import find_most_advanced
from retrier.store.forwarding import begin_forwarding, complete_batch, open_window
from retrier.store.lease import Fence, release_lease
from retrier.store.marking import Opened, OpenedBatch, claim_messages, cut_batch, move_to_staging
from tests.support.api import HOLDER, Api
from tests.support.factories import failure

STAGING_ID = "57a91790-0000-4000-8000-000000000001"


class Retry:
    """A retry of all messages, moved on one step at a time."""

    def __init__(self, api: Api, *, ids: list[str] | None = None) -> None:
        path, body = ("errors/retry", ids) if ids else ("errors/retry/all", None)
        self.api = api
        self.operation_id: str = api.http.post(f"/api/{path}", json=body).json()["operation_id"]
        self.fence: Fence = api.become_processor()

    @property
    def operation(self) -> Any:
        return self.api.get(f"operations/{self.operation_id}")

    @property
    def batch(self) -> RetryBatch:
        found = self.api.db.read(find_most_advanced)
        assert found is not None
        return found.batch

    def open(self) -> Opened:
        opened = cut_batch(self.api.db, self.fence, HOLDER.session_id)
        assert opened is not None
        return opened

    def mark(self) -> None:
        match self.open():
            case OpenedBatch() as opened:
                if claim_messages(self.api.db, self.fence, opened).end is None:
                    move_to_staging(self.api.db, self.fence, opened.batch_id)
            case _:
                pass  # PostgreSQL marks in the transaction that opens the batch.

    def stage(self, *unique_ids: str) -> None:
        numbers = self.numbers(unique_ids)
        copies = StagedCopies(staging_id=STAGING_ID, numbers=numbers, ejected=())
        begin_forwarding(self.api.db, self.fence, self.batch, copies)

    def send(self, *unique_ids: str, finished: WindowResult | None = None) -> None:
        known, numbers = finished or WindowResult(), self.numbers(unique_ids)
        open_window(self.api.db, self.fence, self.batch, finished=known, numbers=numbers)

    def record(self, *unique_ids: str) -> None:
        self.send(finished=WindowResult(forwarded=self.numbers(unique_ids)))

    def numbers(self, unique_ids: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.api.number(unique_id) for unique_id in unique_ids)


def test_an_operation_waits_until_it_is_its_turn(api: Api) -> None:
    api.receive(failure(), failure())

    operation = Retry(api).operation

    assert (operation["state"], operation["remaining"], operation["batches"]) == ("waiting", 2, 0)
    assert "started_at" not in operation


def test_an_operation_names_its_batch(api: Api) -> None:
    api.receive(failure())
    retry = Retry(api)

    retry.mark()

    assert retry.operation["state"] == "preparing"
    assert retry.operation["batch_id"] == retry.batch.batch_id
    assert "started_at" in retry.operation


def test_an_operation_counts_what_is_forwarded_and_what_failed(api: Api) -> None:
    first, second, third = api.receive(failure(), failure(), failure())
    retry = Retry(api)
    retry.mark()
    retry.stage(first, second, third)
    retry.send(first, second)

    sent, returned = retry.numbers([first, second])
    reverted = (Ejected(number=returned, unique_message_id=second, reason="no such queue"),)
    retry.send(finished=WindowResult(forwarded=(sent,), reverted=reverted))

    counts = {name: retry.operation[name] for name in ("forwarded", "failed", "remaining")}
    assert counts == {"forwarded": 1, "failed": 1, "remaining": 1}


def test_an_operation_under_way_has_an_estimate(api: Api) -> None:
    first, second = api.receive(failure(), failure())
    retry = Retry(api)
    retry.mark()
    retry.stage(first, second)
    assert "estimated_end" not in retry.operation
    retry.send(first)

    retry.record(first)

    assert retry.operation["estimated_end"] >= retry.operation["started_at"]


def test_a_skipped_id_is_told_with_its_reason(api: Api) -> None:
    (known,) = api.receive(failure())
    retry = Retry(api, ids=[known, "unknown"])

    retry.mark()

    assert retry.operation["skipped"] == 1
    assert retry.operation["skipped_messages"] == [
        {"id": "unknown", "reason": "no failed message has this id"}
    ]


def test_an_operation_that_is_over_tells_when_and_why(api: Api) -> None:
    retry = Retry(api)

    retry.mark()

    assert retry.operation["state"] == "completed"
    assert "nothing to retry" in retry.operation["reason"]
    assert "completed_at" in retry.operation


def test_operations_are_listed_newest_first(api: Api) -> None:
    first = Retry(api).operation_id
    second = Retry(api).operation_id

    assert api.ids("operations") == [second, first]
    assert api.ids("operations", page=2, per_page=1) == [first]


def test_an_unknown_operation_is_not_found(api: Api) -> None:
    assert api.http.get("/api/operations/none").status_code == 404


def test_no_batch_alive_is_an_empty_list(api: Api) -> None:
    assert api.get("batches") == []


def test_a_batch_in_marking_is_shown_with_its_session(api: Api) -> None:
    retry = Retry(api, ids=api.receive(failure(), failure()))

    opened = retry.open()

    (batch,) = api.get("batches")
    assert (batch["id"], batch["operation_id"]) == (opened.batch_id, retry.operation_id)
    assert (batch["status"], batch["session_id"]) == ("marking", HOLDER.session_id)
    assert (batch["claims"], batch["is_now_forwarding"]) == (0, False)


def test_a_batch_in_staging_counts_its_claims(api: Api) -> None:
    api.receive(failure(), failure())
    retry = Retry(api)

    retry.mark()

    (batch,) = api.get("batches")
    assert (batch["status"], batch["initial_size"], batch["claims"]) == ("staging", 2, 2)
    assert "staging_id" not in batch


def test_a_batch_forwarding_tells_what_is_forwarded_and_what_is_in_doubt(api: Api) -> None:
    first, second, third = api.receive(failure(), failure(), failure())
    retry = Retry(api)
    retry.mark()
    retry.stage(first, second, third)
    retry.send(first)

    retry.send(second, finished=WindowResult(forwarded=retry.numbers([first])))

    (batch,) = api.get("batches")
    assert (batch["status"], batch["staging_id"], batch["message_count"]) == (
        "forwarding",
        STAGING_ID,
        3,
    )
    assert (batch["claims"], batch["forwarded"], batch["in_doubt"]) == (3, 1, 1)
    assert batch["is_now_forwarding"]


def test_one_batch_lists_the_claims_in_doubt(api: Api) -> None:
    first, second = api.receive(failure(), failure())
    retry = Retry(api)
    retry.mark()
    retry.stage(first, second)

    retry.send(second)

    found = api.get(f"batches/{retry.batch.batch_id}")
    (claim,) = found["claims_in_doubt"]
    assert claim["unique_message_id"] == second
    assert "sending_since" in claim


def test_a_batch_that_is_done_is_gone(api: Api) -> None:
    (unique_id,) = api.receive(failure())
    retry = Retry(api)
    retry.mark()
    batch = retry.batch
    retry.stage(unique_id)
    retry.send(unique_id)
    retry.record(unique_id)

    complete_batch(api.db, retry.fence, batch)

    assert api.http.get(f"/api/batches/{batch.batch_id}").status_code == 404


@pytest.mark.parametrize("recorded", [False, True])
def test_a_message_shows_its_claim(api: Api, recorded: bool) -> None:  # noqa: FBT001 - parametrised
    (unique_id,) = api.receive(failure())
    retry = Retry(api)
    retry.mark()
    retry.stage(unique_id)
    retry.send(unique_id)

    if recorded:
        retry.record(unique_id)

    found = api.get(f"errors/{unique_id}")
    assert found["status"] == "retryIssued"
    assert found["claim"]["operation_id"] == retry.operation_id
    assert found["claim"]["in_doubt"] is not recorded
    assert ("forwarded_at" in found["claim"]) is recorded


def test_nobody_is_the_processor_before_somebody_was(api: Api) -> None:
    processor = api.get("processor")

    assert (processor["is_held"], processor["waits_for"]) == (False, "processor")


def test_the_processor_is_who_holds_the_lease(api: Api) -> None:
    api.become_processor()

    processor = api.get("processor")

    assert processor["is_held"]
    assert (processor["epoch"], processor["host"], processor["pid"]) == (1, "host", 7)
    assert processor["acquired_at"] < processor["expires_at"]
    assert "forwarding" not in processor


def test_a_lease_given_back_is_held_by_nobody(api: Api) -> None:
    release_lease(api.db, api.become_processor())

    assert not api.get("processor")["is_held"]


def test_the_processor_tells_which_batch_it_forwards(api: Api) -> None:
    (unique_id,) = api.receive(failure())
    retry = Retry(api)
    retry.mark()

    retry.stage(unique_id)

    assert api.get("processor")["forwarding"] == retry.batch.batch_id


def test_a_group_retry_shows_its_progress(api: Api) -> None:
    first, second = api.receive(failure(queue="a"), failure(queue="a"))
    (group,) = api.ids("recoverability/groups/Endpoint Address")
    api.http.post(f"/api/recoverability/groups/{group}/errors/retry")
    retry = Retry(api)
    retry.mark()
    retry.stage(first, second)
    retry.send(first)

    retry.record(first)

    (shown,) = api.get("recoverability/groups/Endpoint Address")
    assert shown["operation_status"] == "Forwarding"
    assert (shown["operation_progress"], shown["operation_remaining_count"]) == (0.5, 1)
    assert shown["operation_messages_completed_count"] == 1
