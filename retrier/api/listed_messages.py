"""Failed messages of a list as JSON, with why those wait that are scheduled."""

from collections.abc import Sequence

from retrier.api.answers import Json, present
from retrier.api.parts import ApiParts
from retrier.api.views.messages import item
from retrier.store.queries.message_waits import why_listed_wait
from retrier.store.queries.messages import ListedMessage


def show_listed(parts: ApiParts, listed: Sequence[ListedMessage]) -> list[Json]:
    """Show them as a list does."""
    waits = why_listed_wait(parts.db, listed)
    return [
        item(each) | present({"waits_because": waits.get(each.unique_message_id)})
        for each in listed
    ]
