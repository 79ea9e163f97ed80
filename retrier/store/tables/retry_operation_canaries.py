"""Canaries (`retry_operation_canaries`): the few messages of an operation that are sent first."""

from retrier.domain.retry_operation import Canary, CanaryState
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_operation_canaries


def add(tx: Transaction, operation_id: str, canary: Canary) -> None:
    """Add the canary of a new operation."""
    row = {
        "operation_id": operation_id,
        "size": canary.size,
        "wait_ms": round(canary.wait.total_seconds() * 1000),
        "most_back": canary.most_back,
        "state": CanaryState.SENDING,
        "retries": [],
    }
    tx.execute(retry_operation_canaries.insert(), row)
