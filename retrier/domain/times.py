"""Times as messages carry them and as people write them.

What a message carries and is no exact time gives None, never a guess. What a person wrote is
refused with the nearest time that is one; one reader for options, requests and fields.
"""

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


NO_TIME_SPAN = "00:00:00"


def show_time_span(duration: timedelta) -> str:
    """Return a duration as .NET writes it: `[d.]hh:mm:ss[.fffffff]`; years are days there."""
    seconds, rest = divmod(abs(duration), timedelta(seconds=1))
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    whole = f"{hour:02}:{minute:02}:{second:02}"
    fraction = f".{rest.microseconds:06}0" if rest else ""
    sign = "-" if duration < timedelta(0) else ""
    return f"{sign}{f'{days}.' if days else ''}{whole}{fraction}"


DURATION_PATTERN = r"([0-9]{1,12})(ms|s|m|h|d)"
_DURATION = re.compile(DURATION_PATTERN)
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit."""
_LONGEST = 36_500 * UNITS["d"]
"""Seconds; `now` and that many are still a valid time."""

_LOOSE_DURATION = re.compile(r"(?:last |in )?(\d{1,9}) ?([a-z]+)(?: ago)?")
_WORDS = {
    "ms": "ms msec msecs millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w wk wks week weeks",
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in words.split()}
_DAYS_OF_A_WEEK = 7
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")
_YEAR_FIRST = re.compile(r"(\d{4})[./-](\d{1,2})[./-](\d{1,2})(.*)")
_EPOCH = re.compile(r"\d{10}")

_OFFSET = re.compile(r"(?:Z|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?)$")
_HAS_SECONDS = re.compile(r"\d{2}:?\d{2}:?\d{2}")
_SECOND, _MINUTE, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
_SHORTEST = timedelta(microseconds=1)

_SHOWN = 40
"""Characters of a text that is quoted."""

DURATION_FORM = "a duration is a whole number and a unit, such as 30s, 5m, 2h or 7d"
MOMENT_FORM = (
    "a time is how long ago, such as 30m, 2h or 7d, or a date or a time in ISO 8601, such as "
    "2026-05-04 or 2026-05-04T12:00:00Z"
)
COMING_FORM = MOMENT_FORM.replace("how long ago", "how long from now")


class NoTime(ValueError):
    """A text is no time; the words say what is, and what the text may have meant."""


class TimeOutOfBounds(NoTime):
    """A time is not between the years 1 and 9999 once it is in UTC."""


def read_duration(text: str) -> timedelta:
    """Read a whole number with its unit. Raises NoTime."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise NoTime(_refusal(text, DURATION_FORM, _nearest_duration(_plain(text))))
    number, unit = found.groups()
    return timedelta(seconds=min(int(number) * UNITS[unit], _LONGEST))


def is_duration(text: str) -> bool:
    """Say whether a text that is a time says how far away it is."""
    return _DURATION.fullmatch(text) is not None


def read_moment(text: str, now: datetime, *, coming: bool = False) -> datetime:
    """Read a time into UTC; without an offset it is in UTC, and a date is its first moment.

    A duration counts back from `now`, or forward where a time that is `coming` is asked for.
    Raises NoTime.
    """
    if is_duration(text):
        away = read_duration(text)
        return now + away if coming else now - away
    try:
        # Python accepts a time with a NUL at its end, so text that is not printable is refused.
        time = datetime.fromisoformat(text.upper() if text.isprintable() else "")
    except ValueError:
        form = COMING_FORM if coming else MOMENT_FORM
        raise NoTime(_refusal(text, form, _nearest_moment(_plain(text), now))) from None
    try:
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError:
        raise TimeOutOfBounds("a time lies between the years 1 and 9999, in UTC too") from None


def last_moment_of(time: datetime, text: str) -> datetime:
    """Return the last moment of a time that ends a range, as it is written.

    What is shown is cut to seconds or minutes, so `10:00:00` includes 10:00:00.5, `10:00` its
    minute, and a date its day. A time with a fraction is exact, and so is a duration.
    """
    if "." in text or "," in text or is_duration(text):
        return time
    _, *clock = text.strip().upper().replace(" ", "T").split("T")
    written = _OFFSET.sub("", clock[0]) if clock else ""
    length = _SECOND if _HAS_SECONDS.fullmatch(written) else _MINUTE
    try:
        return time + (length if clock else _DAY) - _SHORTEST
    except OverflowError:
        return time


def as_sentence(error: NoTime) -> str:
    """Return what is wrong as a sentence of its own."""
    words = str(error)
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('?') else '.'}"


def _refusal(text: str, form: str, nearest: str | None) -> str:
    meant = f"; did you mean {nearest}?" if nearest else ""
    return f"{text[:_SHOWN]!a} is no time: {form}{meant}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _nearest_duration(text: str) -> str | None:
    found = _LOOSE_DURATION.fullmatch(text)
    match _UNIT_OF.get(found[2]) if found else None, found:
        case str(unit), re.Match():
            number = int(found[1])
            return f"{number * _DAYS_OF_A_WEEK}d" if unit == "w" else f"{number}{unit}"
        case _:
            return None


def _nearest_moment(text: str, now: datetime) -> str | None:
    if text in {"now", "today"}:
        return f"{now.astimezone(UTC):%Y-%m-%d}"
    if text == "yesterday":
        return f"{now.astimezone(UTC) - timedelta(days=1):%Y-%m-%d}"
    if _EPOCH.fullmatch(text):
        return f"{datetime.fromtimestamp(int(text), UTC):%Y-%m-%dT%H:%M:%SZ}"
    return _nearest_duration(text) or _nearest_date(text)


def _nearest_date(text: str) -> str | None:
    day_first, year_first = _DAY_FIRST.fullmatch(text), _YEAR_FIRST.fullmatch(text)
    if day_first:
        day, month, year, rest = day_first.groups()
    elif year_first:
        year, month, day, rest = year_first.groups()
    else:
        return None
    clock = re.fullmatch(r"[t ,]*(\d{1,2}:\d{2}(?::\d{2})?) ?(?:z|utc|gmt)?", rest)
    written = f"{year}-{month:0>2}-{day:0>2}"
    if clock:
        written += f"T{clock[1]:0>5}Z"
    try:
        datetime.fromisoformat(written)
    except ValueError:
        return None
    return written if clock or not rest.strip() else None
