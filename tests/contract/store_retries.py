"""Brings one retry of one message to a stage and leaves it there, as a crash would."""

from dataclasses import dataclass
from typing import Any

import pytest

from retrier.domain.failed_message import Failure
from retrier.store.operation_requests import CreatedOperation
from tests.contract.store_rows import again, claims
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import failure, unique_id

CLAIMED, STAGED, BEING_SENT, SENT = "claimed", "staged", "being sent", "sent"
POINTS = {
    CLAIMED: "marking.moved",
    STAGED: "staging.committed",
    BEING_SENT: "forwarding.published",
}
STAGES = (*POINTS, SENT)
ISSUED = (STAGED, BEING_SENT, SENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A message, the operation that asked for its retry, and the retry id of its claim."""

    bench: Bench
    first: Failure
    created: CreatedOperation
    retry_id: str

    @property
    def key(self) -> str:
        """The unique message id."""
        return unique_id(self.first)

    @property
    def message(self) -> dict[str, Any]:
        """The row of the message."""
        return self.bench.message(self.key)

    @property
    def operation(self) -> dict[str, Any]:
        """The row of the operation."""
        return self.bench.operation(self.created)

    @property
    def has_claim(self) -> bool:
        """Whether the claim is in force."""
        return self.key in claims(self.bench.db)

    def fail(self, **changes: Any) -> Failure:
        """Let the message fail again."""
        stamps = {"stamped_id": self.key} if "retry_id" in changes else {}
        failed = again(self.first, queue=QUEUE, **(stamps | changes))
        self.bench.receive(failed)
        return failed

    def confirm(self, **changes: Any) -> None:
        """Let the consumer confirm a retry of the message."""
        self.bench.confirm(self.key, **changes)

    def finish(self) -> dict[str, Any]:
        """Let the next process do all that is left; return the row of the operation."""
        self.bench.restart()
        self.bench.work()
        return self.operation


def bring_to(bench: Bench, stage: str, **changes: Any) -> Retry:
    """Let a message fail and be retried up to this stage."""
    first = failure(queue=QUEUE, **changes)
    bench.receive(first)
    created = bench.ask_all()
    if stage == SENT:
        bench.work()
    else:
        bench.kill_at(POINTS[stage])
        with pytest.raises(Killed):
            bench.work()
    claim = claims(bench.db)[unique_id(first)]
    return Retry(bench=bench, first=first, created=created, retry_id=claim["retry_id"])
