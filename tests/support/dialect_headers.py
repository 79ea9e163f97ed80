"""Failure headers in each dialect as values, and a reading of them."""

from retrier.domain.dialects.dialect import Dialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

NSB: dict[str, object] = {"NServiceBus.MessageId": "5f2a", "NServiceBus.FailedQ": "sales"}
OURS: dict[str, object] = {"Retrier.FailedQueue": "orders"}


def death(**changes: object) -> dict[str, object]:
    """Return what the broker writes when it gives a message up; changes are of `x-death[0]`."""
    return {"x-death": [{"queue": "orders", "reason": "rejected", "count": 3} | changes]}


def properties(*parts: dict[str, object], **fields: str | int) -> Properties:
    """Return properties with the headers of all parts; later ones win."""
    headers: dict[str, object] = {}
    for part in parts:
        headers |= part
    return Properties(headers=headers, fields=fields)


def read(dialect: Dialect, *parts: dict[str, object], **fields: str | int) -> FailureDetails:
    """Read headers that the dialect must understand."""
    details = dialect.read(properties(*parts, **fields))
    assert isinstance(details, FailureDetails)
    return details
