"""Which messages a text names: by the id that Retrier gave them, or the one of their sender."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_messages

messages = failed_messages.c


@reading
def find_ids(tx: Transaction, texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the unique ids of the messages that each text names; a text that names none is left out.

    Whole ids only. Senders use ids like ours, so both kinds are looked up. Raises
    DatabaseUnavailable.
    """
    ours = {canonical(text): text for text in texts if is_guid(text)}
    found: defaultdict[str, set[str]] = defaultdict(set)
    by_ours = select(messages.unique_message_id).where(
        tx.sql.member(messages.unique_message_id, sorted(ours))
    )
    for key in tx.execute(by_ours).scalars() if ours else ():
        found[ours[key]].add(key)
    by_theirs = select(messages.message_id, messages.unique_message_id).where(
        tx.sql.member(messages.message_id, sorted(set(texts)))
    )
    for row in tx.execute(by_theirs) if texts else ():
        found[row.message_id].add(row.unique_message_id)
    return {text: sorted(keys) for text, keys in found.items()}
