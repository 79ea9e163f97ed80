"""What settings are made of: sections, quantities with a unit, URLs and hosts."""

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from retrier.domain.headers import why_not_dropped
from retrier.domain.hosts import parse_host, parse_network, parse_origin
from retrier.domain.parameters import nearest
from retrier.private_files import NOT_ASKED, is_encrypted

KeyPath = tuple[str, ...]
"""A key, after the sections that hold it: `("broker", "url")`."""


class Section(BaseModel):
    """A part of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


AS_RESOLVED = "resolved"
_LONGEST_NAME = 255
"""Bytes of a queue name: a short string in AMQP 0-9-1."""
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)?")

# Longer than anybody waits, and short enough that `now` minus it is still a valid datetime.
_LONGEST = timedelta(days=36500)


def parse_duration(value: object) -> timedelta:
    """Read a number with a unit. Raises ValueError."""
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration like 500ms, 30s, 5m, 1h or 7d")
    number, unit = found.groups()
    return timedelta(seconds=min(int(number) * _SECONDS[unit], 2 * _LONGEST.total_seconds()))


def _parse_duration_or_off(value: object) -> timedelta | None:
    # YAML 1.1 reads a bare `off` as false; from the environment it comes as text.
    if value is False or value == "off":
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def _check_duration_or_off(value: timedelta | None) -> timedelta | None:
    return None if value is None else check_duration(value)


def check_duration(value: timedelta) -> timedelta:
    """Return it if it is neither nothing nor too long. Raises ValueError."""
    if not timedelta(0) < value <= _LONGEST:
        raise ValueError("must be longer than 0s and at most 36500d")
    return value


def _check_wait(value: timedelta) -> timedelta:
    return value if value == timedelta(0) else check_duration(value)


def _parse_size(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a size like 64KiB, 16MiB or 1GiB, or a number of bytes")
    number, unit = found.groups(default="")
    return int(number) * _BYTES[unit]


def _check_size(value: int) -> int:
    if value < 1:
        raise ValueError("must be at least 1 byte")
    return value


def check_queue_name(name: str) -> str:
    """Return the name if a queue can have it. Raises ValueError."""
    if not 1 <= len(name.encode(errors="replace")) <= _LONGEST_NAME:
        raise ValueError(f"must be a queue name of 1 to {_LONGEST_NAME} bytes")
    return name


def read_off(value: object) -> object:
    """Return None for an empty text."""
    # In the environment nothing but an empty text can say that there is no queue.
    return None if value == "" else value


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")  # noqa: TRY004 - pydantic reports ValueErrors
    return value


def _parse_kept_alike(value: object) -> object:
    if value == AS_RESOLVED:
        return value
    try:
        kept = _parse_duration_or_off(value)
    except ValueError as error:
        raise ValueError(f"{error}, or {AS_RESOLVED}") from None
    return _check_duration_or_off(kept)


def between(low: int, high: int) -> AfterValidator:
    """Accept the whole numbers from `low` to `high`, both included."""

    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return AfterValidator(check)


def at_least(shortest: str) -> AfterValidator:
    """Accept durations of at least `shortest`, and `off`."""
    limit = parse_duration(shortest)

    def check(value: timedelta | None) -> timedelta | None:
        if value is not None and value < limit:
            raise ValueError(f"must be at least {shortest}")
        return value

    return AfterValidator(check)


Count = Annotated[int, BeforeValidator(_refuse_bool)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(check_duration)]
DurationOrNone = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(_check_wait)]
"""A duration that may be nothing: `0s`."""
DurationOrOff = Annotated[
    timedelta | None,
    BeforeValidator(_parse_duration_or_off),
    AfterValidator(_check_duration_or_off),
]
"""A duration; None if it is `off`."""
KeptAlike = Annotated[timedelta | Literal["resolved"] | None, BeforeValidator(_parse_kept_alike)]
"""The same, or `resolved`: as long as what is resolved in another way."""
Size = Annotated[int, BeforeValidator(_parse_size), AfterValidator(_check_size)]
QueueName = Annotated[str, AfterValidator(check_queue_name)]
OptionalQueue = Annotated[QueueName | None, BeforeValidator(read_off)]


_LONGEST_HEADER = 255
"""Bytes: AMQP's short string."""


def _check_header_name(name: str) -> str:
    if not 0 < len(name.encode()) <= _LONGEST_HEADER:
        raise ValueError(f"must be the name of a header: 1 to {_LONGEST_HEADER} bytes")
    return name


HeaderName = Annotated[str, AfterValidator(_check_header_name)]


def _check_dropped(pattern: str) -> str:
    why_not = why_not_dropped(pattern)
    if why_not is not None:
        raise ValueError(why_not)
    return pattern


DroppedHeader = Annotated[HeaderName, AfterValidator(_check_dropped)]


SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
SSL_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
SYSTEM = "system"
"""The value of sslrootcert that means the system's own authorities."""


def find_parameter_problem(url: str) -> str | None:
    """Return what is wrong with the parameters of a PostgreSQL URL, without showing a value."""
    parameters = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    if not parameters:
        return None
    # Slow to load, and most commands have no database.
    from psycopg.pq import Conninfo  # noqa: PLC0415

    known = frozenset(option.keyword.decode() for option in Conninfo.get_defaults())
    unknown = sorted({name for name, _ in parameters} - known)
    if unknown:
        named = ", ".join(_with_nearest(name, known) for name in unknown)
        return f"has a parameter that PostgreSQL's library does not know: {named}"
    if "replication" in dict(parameters):
        # Its sessions refuse statements with values, so the first one would end each start.
        return "has the parameter replication, which is for copies of a server"
    return _find_ssl_problem(parameters)


def _with_nearest(name: str, known: frozenset[str]) -> str:
    near = nearest(name, known)
    return name if near is None else f"{name} (perhaps {near} is meant)"


def _find_ssl_problem(parameters: Sequence[tuple[str, str]]) -> str | None:
    for name, value in parameters:
        if name == "sslmode" and value not in SSL_MODES:
            return f"has an sslmode that there is not: known are {', '.join(SSL_MODES)}"
        if name in SSL_FILES and value != SYSTEM and not Path(value).is_file():
            return f"names a file as {name} that does not exist"
        if name == "sslkey" and "sslpassword" not in dict(parameters) and is_encrypted(value):
            return f"names a file as {name} that {NOT_ASKED}: name the key as it is, or sslpassword"
    return None


_POSTGRESQL_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


# Greedy up to the last @: a password with an unescaped / or @ must not be shown in part.
def _check_database_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() in _POSTGRESQL_SCHEMES:
        check_host_and_port(url)
        if problem := find_parameter_problem(url):
            raise ValueError(problem)
        return f"postgresql+psycopg://{rest}"
    if not separator or scheme.lower() != "sqlite":
        raise ValueError("must begin with postgresql:// or sqlite:///")
    if rest.partition("?")[0] in {"", "/", "/:memory:"}:
        raise ValueError("must name a file: what is kept in memory is lost with the process")
    return f"sqlite://{rest}"


def check_host_and_port(url: str) -> None:
    """Raise ValueError for a URL without a usable host and port."""
    # The error of urlsplit is not shown: it quotes the port, which may be a part of a password.
    try:
        port = urlsplit(url).port
    except ValueError:
        port = 0
    # Some readers of URLs end a password at its first @: its rest would be shown as the host's name.
    _, _, behind_user = urlsplit(url).netloc.partition(":")
    if port == 0 or behind_user.count("@") > 1:
        raise ValueError(
            "must have a host and a port between 1 and 65535; "
            "/ : @ , in a password are written %2F %3A %40 %2C"
        )


def _check_listening_host(host: str) -> str:
    if parse_host(f"[{host}]" if ":" in host else host) is not None:
        return host
    raise ValueError("must be an address of this machine, such as 127.0.0.1, 0.0.0.0 or ::")


def _check_allowed_host(host: str) -> str:
    if parse_host(host) is None:
        raise ValueError(
            "must be a name or an address, such as retrier.example or retrier.example:8443, "
            "without scheme, path or wildcard"
        )
    return host


def _check_allowed_origin(origin: str) -> str:
    if parse_origin(origin) is None:
        raise ValueError(
            "must be the origin of web pages, such as https://pulse.example or "
            "http://pulse.example:9090, without path or wildcard"
        )
    return origin


def _check_trusted_proxy(address: str) -> str:
    if parse_network(address) is None:
        raise ValueError("must be an address or a network, such as 10.0.0.7 or 10.0.0.0/8")
    return address


# repr=False: tracebacks print settings, and must not print passwords.
DatabaseUrl = Annotated[str, AfterValidator(_check_database_url), Field(repr=False)]
ListeningHost = Annotated[str, AfterValidator(_check_listening_host)]
AllowedHost = Annotated[str, AfterValidator(_check_allowed_host)]
AllowedOrigin = Annotated[str, AfterValidator(_check_allowed_origin)]
TrustedProxy = Annotated[str, AfterValidator(_check_trusted_proxy)]
