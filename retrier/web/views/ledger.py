"""The ledger: what was taken off the error queues, and what became of it, term by term."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.queries.monitoring import KINDS_OF_DELIVERY, Ledger
from retrier.web.wording import number, plural

_KINDS = {
    "new": "new failed messages",
    "repeated": "failed again",
    "redelivered": "delivered twice by the broker",
    "confirmations": "confirmations",
    "own_copies": "own copies that came back",
    "failed_imports": "could not be read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """What must add up: `whole` is the sum of the `terms`, apart from the `difference`."""

    title: str
    whole: int
    terms: Sequence[tuple[str, int]]
    difference: int
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """Both sums."""

    sums: Sequence[Sum]


def ledger_view(read: Ledger) -> LedgerView:
    """Return the ledger as people read it."""
    deliveries = read.entry("taken_off") + read.entry("reimported")
    return LedgerView(
        sums=[
            Sum(
                title="Taken off the error queues, or read again",
                whole=deliveries,
                terms=[(_KINDS[kind], read.entry(kind)) for kind in KINDS_OF_DELIVERY],
                difference=read.uncounted_deliveries,
                verdict=_verdict(read.uncounted_deliveries),
            ),
            Sum(
                title="New failed messages",
                whole=read.entry("new"),
                terms=list(_messages(read)),
                difference=read.missing_messages,
                verdict=_verdict(read.missing_messages),
            ),
        ]
    )


def _messages(read: Ledger) -> Iterator[tuple[str, int]]:
    for status in FailedMessageStatus:
        yield status.value.replace("_", " "), read.stored.get(status, 0)
    yield "deleted for their age", read.entry("deleted")


def _verdict(difference: int) -> str:
    if difference == 0:
        return "It adds up."
    what = plural(abs(difference), "message")
    return f"It does not add up: {what} of difference ({number(difference)}). Run `retrier verify`."
