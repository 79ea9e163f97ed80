"""Where things are: URLs and hosts, their allowed forms, and how they are shown."""

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from retrier.domain.hosts import is_loopback, parse_host
from retrier.settings.database_parameters import find_parameter_problem
from retrier.transport.transports import TRANSPORTS

_POSTGRESQL_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")

# Greedy up to the last @: a password with an unescaped / or @ must not be shown in part.
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_PASSWORD_PARAMETER = re.compile(r"([?&]\w*password=)[^&]*", re.IGNORECASE)


def redact(url: str) -> str:
    """Show a URL with *** in place of its password."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


def _check_broker_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in TRANSPORTS:
        raise ValueError("must begin with amqp://, amqps:// or embedded:///")
    if "://" in rest:
        # Read as one URL, the second would be its virtual host, and be shown with its password.
        raise ValueError(
            "must be a list of URLs where it names several; commas are for the environment"
        )
    if scheme.lower() == "embedded":
        _check_embedded_path(rest)
    else:
        _check_host_and_port(url)
        _check_end(url)
        host = urlsplit(url).hostname or ""
        if not unquote(host).strip():
            # A client would take this machine for it: a variable that is not set would go unseen.
            raise ValueError("must name a host, such as amqp://127.0.0.1")
        if "," in host:
            raise ValueError("must be a list of URLs where it names several hosts")
    return f"{scheme.lower()}://{rest}"


def _read_broker_urls(value: object) -> object:
    """Read one URL as a list of one; its problems are reported without an index."""
    match value:
        case str(url) | [str(url)]:
            return (_check_broker_url(url),)
        case list() | tuple():
            return value
        case _:
            raise ValueError("must be a URL or a list of URLs")


def _check_broker_urls(urls: Sequence[str]) -> Sequence[str]:
    """Refuse URLs that are not nodes of one broker: the service connects to any of them."""
    if not urls:
        raise ValueError("must name at least one URL")
    if len(urls) > 1 and any(url.startswith("embedded:") for url in urls):
        raise ValueError("must name one URL only where one is embedded:///")
    if len({_leave_out_place(url) for url in urls}) > 1:
        raise ValueError(
            "must name the nodes of one broker: "
            "scheme, user, password and virtual host must be the same in each"
        )
    return urls


def _leave_out_place(url: str) -> tuple[str | None, ...]:
    parts = urlsplit(url)
    virtual_host = unquote(parts.path[1:]) or "/"
    return parts.scheme, parts.username, parts.password, virtual_host


def _check_database_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() in _POSTGRESQL_SCHEMES:
        _check_host_and_port(url)
        if problem := find_parameter_problem(url):
            raise ValueError(problem)
        return f"postgresql+psycopg://{rest}"
    if not separator or scheme.lower() != "sqlite":
        raise ValueError("must begin with postgresql:// or sqlite:///")
    if rest.partition("?")[0] in {"", "/", "/:memory:"}:
        raise ValueError("must name a file: what is kept in memory is lost with the process")
    return f"sqlite://{rest}"


def _check_embedded_path(rest: str) -> None:
    if not rest.startswith("/") or rest.endswith("/"):
        raise ValueError("must name a file: embedded:///PATH")
    _check_end(rest)


def _check_end(url: str) -> None:
    if "?" in url or "#" in url:
        raise ValueError(
            "takes no parameters: no ? and no # (in a name or password they are written %3F %23); "
            "TLS is set with amqps:// and broker.tls"
        )


def _check_host_and_port(url: str) -> None:
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


def _check_loopback(host: str) -> str:
    if is_loopback(host):
        return host
    raise ValueError(
        "must be a loopback address (127.0.0.0/8, ::1, localhost) because the API asks for no token"
    )


def _check_allowed_host(host: str) -> str:
    if parse_host(host) is None:
        raise ValueError(
            "must be a name or an address, such as retrier.example or retrier.example:8443, "
            "without scheme, path or wildcard"
        )
    return host


# repr=False: tracebacks print settings, and must not print passwords.
_BrokerUrl = Annotated[str, AfterValidator(_check_broker_url)]
BrokerUrls = Annotated[
    tuple[_BrokerUrl, ...],
    BeforeValidator(_read_broker_urls),
    AfterValidator(_check_broker_urls),
    Field(repr=False),
]
DatabaseUrl = Annotated[str, AfterValidator(_check_database_url), Field(repr=False)]
LoopbackHost = Annotated[str, AfterValidator(_check_loopback)]
AllowedHost = Annotated[str, AfterValidator(_check_allowed_host)]
