"""The standing operation: the one that sends what is due by policy, and is never completed."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from retrier.domain.failed_message import Disposition
from retrier.domain.retry_operation import (
    STANDING_OPERATION,
    Priority,
    RetryOperationState,
    RetryType,
)
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.due import is_standing_missing, look_before_scheduling
from retrier.store.tables import retry_operations

_BLANK: Mapping[str, object] = MappingProxyType(
    {
        "operation_id": STANDING_OPERATION,
        "retry_type": RetryType.BY_POLICY,
        "selection": {"disposition": Disposition.SCHEDULED.value},
        # Neither is used: what it takes is found by its time.
        **dict.fromkeys(("cut_off", "floor"), 0),
        "originator": "what is due by policy",
        "requested_by": "policies",
        "priority": int(Priority.POLICY),
        "state": RetryOperationState.WAITING,
        **dict.fromkeys(("total", "forwarded", "skipped", "failed", "batches"), 0),
    }
)


def ensure_standing(tx: Transaction, earliest: datetime) -> None:
    """Have the messages sent that this transaction schedules; `earliest` is when the first is due.

    Adds the standing operation if it is missing, and wakes the processor if it would else sleep
    for longer. One query if the operation is there; no row is locked and nobody is waited for, so
    it may be called at any place of the transaction.
    """
    is_made, wakes_by_then = look_before_scheduling(tx, earliest)
    if not is_made:
        _make(tx)
    if not wakes_by_then:
        tx.sql.announce_request(tx.conn)


def mend_standing(tx: Transaction) -> None:
    """Add the standing operation if messages are scheduled and it is missing.

    Who schedules the first message while another transaction adds it relies on that one, which
    may be rolled back.
    """
    if is_standing_missing(tx):
        _make(tx)


def _make(tx: Transaction) -> None:
    # Two that insert it would wait for each other with rows locked: the other one makes it.
    if tx.sql.makes_standing(tx.conn):
        retry_operations.add(tx, dict(_BLANK))
