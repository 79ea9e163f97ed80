"""Times as messages carry them. A text that is no exact time gives None, never a guess."""

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MILLISECONDS_FROM = 100_000_000_000
"""An epoch time this large is in milliseconds: in seconds it would be after the year 5000."""

WIRE_FORMAT = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}):(\d{6}) Z", re.ASCII)


def parse_wire_time(text: str | None) -> datetime | None:
    """Read NServiceBus's `yyyy-MM-dd HH:mm:ss:ffffff Z`; None for anything else."""
    match = WIRE_FORMAT.fullmatch(text.strip()) if text else None
    return parse_iso_time(f"{match[1]}T{match[2]}.{match[3]}Z") if match else None


def parse_iso_time(text: str | None) -> datetime | None:
    """Read ISO 8601 with an offset, into UTC; None for anything else.

    Without an offset nobody knows whose local time it is.
    """
    try:
        return in_utc(datetime.fromisoformat(text.strip())) if text else None
    except ValueError:
        return None


def in_utc(time: datetime) -> datetime | None:
    """Return the same moment in UTC; None before 1970: .NET and Go write year 1 for no time."""
    try:
        moment = time.astimezone(UTC) if time.tzinfo else None
    except OverflowError:
        return None
    return moment if moment is not None and moment >= EPOCH else None


def from_epoch(number: object) -> datetime | None:
    """Read an AMQP timestamp, in seconds or, as Java and .NET write them, in milliseconds."""
    if not isinstance(number, int) or number <= 0:
        return None
    milliseconds = number if number >= MILLISECONDS_FROM else number * 1000
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def not_ahead_of(now: datetime, time: datetime | None, slack: timedelta) -> datetime | None:
    """Return the time; None if it is more than `slack` after now: no real clock is that wrong."""
    return time if time is not None and time <= now + slack else None


def show_time(time: datetime) -> str:
    """Return a moment for a sentence that people read, to the second, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
