"""How values look in JSON: times, enums, and members that are left out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import overload

Json = dict[str, object]


@overload
def time(moment: datetime) -> str: ...
@overload
def time(moment: datetime | None) -> str | None: ...
def time(moment: datetime | None) -> str | None:
    """Show a moment in ISO 8601, in UTC, with a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def camel(value: StrEnum) -> str:
    """Show a stored value as ServiceControl shows its enums: `retryIssued`."""
    first, *rest = value.split("_")
    return first + "".join(word.capitalize() for word in rest)


def present(members: Mapping[str, object]) -> Json:
    """Leave out members that are None."""
    return {name: value for name, value in members.items() if value is not None}
