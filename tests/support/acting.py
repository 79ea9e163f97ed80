"""Acts on a few messages, as one transaction of its own."""

from collections.abc import Sequence

from retrier.store import event_log
from retrier.store.archive import Action, ActionResult, change, refusal_entries
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction


@writing
def apply_action(tx: Transaction, action: Action, unique_ids: Sequence[str]) -> ActionResult:
    """Do the act to each of these messages that allows it; return why the others do not."""
    acted = change(tx, action, unique_ids)
    event_log.append(tx, list(refusal_entries(action, acted)))
    return acted
