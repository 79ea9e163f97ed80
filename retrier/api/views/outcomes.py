"""What a request about messages came to, as JSON."""

from retrier.api.views.json import Json
from retrier.domain.ways_out import Act
from retrier.gateway import AskedAgain, Outcome

_NAMES = {
    Act.ARCHIVE: "archived",
    Act.UNARCHIVE: "unarchived",
    Act.RESOLVE: "resolved",
    Act.RELEASE: "released",
}


def outcome(act: Act, came_to: Outcome) -> Json:
    """Show how many messages changed, and why the others did not."""
    skipped = [
        {"reason": str(reason), "count": number} for reason, number in came_to.refused.items()
    ]
    return {_NAMES[act]: came_to.done, "skipped": skipped}


def asked_again(again: AskedAgain) -> Json:
    """Show the operations; the first one as every answer to a retry shows it."""
    first = {"operation_id": again.operation_ids[0]} if again.operation_ids else {}
    return {**first, "total": again.total, "operations": list(again.operation_ids)}
