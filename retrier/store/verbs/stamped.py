"""Messages with the stamps of a copy: what they are once it is known whether the stamps are true."""

from collections.abc import Sequence

from retrier.domain.failed_message import Judged, OwnCopy, Received, Stamped
from retrier.domain.identity import is_guid
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import installation, staging_ids


def tell_apart(tx: Transaction, received: Sequence[Received]) -> Sequence[Judged | OwnCopy]:
    """Return what each turns out to be. Without any stamps in the batch nothing is asked."""
    stamped = [item for item in received if isinstance(item, Stamped)]
    if not stamped:
        return [item for item in received if not isinstance(item, Stamped)]
    ours = installation.find(tx)
    known = staging_ids.find_known(tx, [s.staging_id for s in stamped if is_guid(s.staging_id)])
    return [
        _tell(item, ours, known=item.staging_id in known) if isinstance(item, Stamped) else item
        for item in received
    ]


def _tell(stamped: Stamped, ours: str | None, *, known: bool) -> Judged | OwnCopy:
    if stamped.installation_id != ours:
        return stamped.if_anothers
    return stamped.if_ours if known else stamped.if_unknown
