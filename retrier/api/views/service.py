"""The ledger as JSON."""

from retrier.api.answers import Json
from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.queries.monitoring import KINDS_OF_DELIVERY, Ledger


def ledger(read: Ledger) -> Json:
    """Show both sums, term by term, and the differences: 0 when everything adds up."""
    kinds = {kind: read.entry(kind) for kind in KINDS_OF_DELIVERY}
    stored = {status.value: read.stored.get(status, 0) for status in FailedMessageStatus}
    return {
        "deliveries": {
            "taken_off": read.entry("taken_off"),
            "reimported": read.entry("reimported"),
            **kinds,
            "difference": read.uncounted_deliveries,
        },
        "messages": {
            "new": read.entry("new"),
            **stored,
            "deleted": read.entry("deleted"),
            "difference": read.missing_messages,
        },
    }
