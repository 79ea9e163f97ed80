"""The settings of the broker: its URL, and what goes with which kind of broker."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from retrier.domain.parameters import nearest
from retrier.settings.fields import KeyPath, check_host_and_port, parse_duration
from retrier.transport.queue_names import (
    KOMBUS_SEP,
    KOMBUS_STEPS,
    REDIS,
    Alike,
    are_same,
    find_alike,
)
from retrier.transport.transports import OF_REDIS, TRANSPORTS, find_scheme, why_not_known

AMQP = frozenset({"amqp", "amqps"})
SECURE = ("amqps://", "rediss://")
"""Where `broker.tls` has a meaning."""
_KNOWN = (
    "must begin with amqp://, amqps://, embedded:///, redis://, rediss://, sentinel:// or sqs://; "
    "filesystem://, mongodb://, pgmq:// and sqla+...:// keep fewer promises"
)
_REFUSED: Mapping[str, str] = {
    "memory": (
        "must not begin with memory://: its queues are in one process, so no failure of another "
        "program would ever arrive; embedded:/// needs no server either"
    ),
}

VISIBILITY = "visibility_timeout"
MASTER = "master_name"
_KOMBUS_KEYS = ("unacked", "unacked_index", "unacked_mutex")
_KEYS_BEGIN = ("_kombu.", "_retrier:")
"""Keys beside the queues in a database of Redis: Kombu's, and ours."""
WAIT = "wait_time_seconds"
_OF_SQS = (VISIBILITY, WAIT, "endpoint_url", "profile_name", "role_arn")
_LONGEST_VISIBILITY, _LONGEST_WAIT = 12 * 3600, 20
"""Seconds: SQS allows no more."""
_USUAL_LEASE = "15s"
_LEAST_DRAIN = timedelta(seconds=2)
_LONGEST_KEPT = 366 * 86_400
_LONGEST_ANSWER = 86_400
_LEAST_CONNECTIONS = 3
"""A consumer has one, its lease is renewed on another one, and queues are declared on a third."""


def _check_broker_url(url: str) -> str:
    given, separator, rest = url.partition("://")
    scheme = find_scheme(url)
    if separator and scheme in _REFUSED:
        raise ValueError(_REFUSED[scheme])
    if not separator or scheme not in TRANSPORTS:
        raise ValueError(_KNOWN)
    if scheme == "sentinel":
        return _check_sentinels(url.split(";"))
    if "://" in rest:
        # Read as one URL, the second would be its virtual host, and be shown with its password.
        raise ValueError(
            "must be a list of URLs where it names several; commas are for the environment"
        )
    if scheme == "embedded":
        _check_embedded_path(rest)
    elif scheme == "sqs":
        _check_region(url)
    elif scheme in AMQP | REDIS:
        return _check_server_url(url)
    return f"{given.lower()}://{rest}"


def _check_region(url: str) -> None:
    _check_end(url)
    check_host_and_port(url)
    parts = urlsplit(url)
    region = parts.netloc.rpartition("@")[2]
    if parts.path.strip("/") or not _REGION.fullmatch(region):
        raise ValueError("must be sqs:// and a region, such as sqs://eu-west-1")


_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]{1,2}")


def _check_sentinels(urls: Sequence[str]) -> str:
    """Refuse sentinels that differ in more than their places: Kombu would read the first one only."""
    found = [_check_server_url(each) for each in urls]
    parts = [urlsplit(each) for each in found]
    if len({(each.username, each.password, each.path.strip("/") or "0") for each in parts}) > 1:
        raise ValueError(
            "must have the same user, password and number of the database in each part"
        )
    return ";".join(found)


def _check_server_url(url: str) -> str:
    scheme, _, rest = url.partition("://")
    check_host_and_port(url)
    _check_end(url)
    host = urlsplit(url).hostname or ""
    if not unquote(host).strip():
        # A client would take this machine for it: a variable that is not set would go unseen.
        raise ValueError(f"must name a host, such as {scheme.lower()}://127.0.0.1")
    if "," in host:
        raise ValueError("must be a list of URLs where it names several hosts")
    database = urlsplit(url).path.strip("/")
    if scheme.lower() in REDIS and database and not database.isdecimal():
        raise ValueError(
            "must have the number of a database of Redis behind the host, or nothing, which is 0: "
            "redis://127.0.0.1/0"
        )
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
    if len(urls) > 1 and any(find_scheme(url) not in AMQP for url in urls):
        raise ValueError(
            "must name one URL only: several are for the nodes of a RabbitMQ cluster; the sentinels "
            "of Redis are one URL, as in sentinel://one:26379/0;sentinel://two:26379/0"
        )
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


def _check_embedded_path(rest: str) -> None:
    if not rest.startswith("/") or rest.endswith("/"):
        raise ValueError("must name a file: embedded:///PATH")
    _check_end(rest)


def _check_end(url: str) -> None:
    if "?" in url or "#" in url:
        raise ValueError(
            "takes no parameters: no ? and no # (in a name or password they are written %3F %23); "
            "TLS is set with amqps:// or rediss:// and broker.tls"
        )


# repr=False: tracebacks print settings, and must not print passwords.
_BrokerUrl = Annotated[str, AfterValidator(_check_broker_url)]
BrokerUrls = Annotated[
    tuple[_BrokerUrl, ...],
    BeforeValidator(_read_broker_urls),
    AfterValidator(_check_broker_urls),
    Field(repr=False),
]
KombuOptions = Annotated[dict[str, object], Field(repr=False)]
"""Kombu's transport options, by Kombu's names: the same that Celery has as `broker_transport_options`."""


def _must_be(
    what: str, is_right: Callable[[Any], bool], *, optional: bool = False
) -> BeforeValidator:
    """Accept what is right, as it is: Kombu gets it so. `optional`: null stands for Kombu's own."""

    def check(value: object) -> object:
        if not (optional and value is None) and not is_right(value):
            raise ValueError(f"must be {what}")
        return value

    return BeforeValidator(check)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_time(value: object) -> bool:
    # Infinite and "not a number" are numbers in YAML, too.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < value <= _LONGEST_ANSWER  # type: ignore[operator]


def _are_steps(value: object) -> bool:
    if not isinstance(value, list | tuple) or not all(_is_whole(each, 0) for each in value):
        return False
    return bool(value) and list(value) == sorted(set(value))


_SENTINEL_NAMES = (
    "username",
    "password",
    "socket_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "client_name",
    "ssl",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
    "ssl_check_hostname",
)


def _are_of_sentinels(value: object) -> bool:
    return isinstance(value, dict) and all(each in _SENTINEL_NAMES for each in value)


_Seconds = Annotated[
    Any,
    _must_be(f"a number of seconds above 0, {_LONGEST_ANSWER:,} at most", _is_time, optional=True),
]
_CLIENT_NAME = re.compile(r"[!-~]*")


class RedisOptions(BaseModel):
    """The transport options of Redis: what Kombu would fail of is refused here."""

    model_config = ConfigDict(hide_input_in_errors=True)

    master_name: Annotated[
        Any, _must_be("a name", lambda value: isinstance(value, str), optional=True)
    ] = None
    client_name: Annotated[
        Any,
        _must_be(
            "a name of letters, digits and signs without a space",
            lambda value: isinstance(value, str) and _CLIENT_NAME.fullmatch(value) is not None,
            optional=True,
        ),
    ] = None
    global_keyprefix: Annotated[Any, _must_be("a text", lambda value: isinstance(value, str))] = ""
    health_check_interval: Annotated[
        Any, _must_be("a whole number of seconds, 0 or more", lambda value: _is_whole(value, 0))
    ] = 0
    max_connections: Annotated[
        Any,
        _must_be(
            f"a whole number, at least {_LEAST_CONNECTIONS}",
            lambda value: _is_whole(value, _LEAST_CONNECTIONS),
        ),
    ] = _LEAST_CONNECTIONS
    min_other_sentinels: Annotated[
        Any, _must_be("a whole number, 0 or more", lambda value: _is_whole(value, 0))
    ] = 0
    priority_steps: Annotated[
        Any, _must_be("a list of whole numbers that rise, as in [0, 3, 6, 9]", _are_steps)
    ] = KOMBUS_STEPS
    sentinel_kwargs: Annotated[
        Any,
        _must_be(f"a mapping with {', '.join(_SENTINEL_NAMES)}", _are_of_sentinels, optional=True),
    ] = None
    sep: Annotated[
        Any,
        _must_be("a text that is not empty", lambda value: isinstance(value, str) and bool(value)),
    ] = KOMBUS_SEP
    socket_connect_timeout: _Seconds = None
    socket_keepalive: Annotated[
        Any, _must_be("true or false", lambda value: isinstance(value, bool), optional=True)
    ] = None
    socket_timeout: _Seconds = None


Clash = tuple[KeyPath, str]


def find_broker_clashes(tree: Mapping[str, object]) -> Iterator[Clash]:
    """Find what has no meaning with the broker that is named; reads values that are not checked yet."""
    match tree:
        case {"broker": dict(given)}:
            broker: dict[str, object] = given
        case _:
            return
    match broker.get("url"):
        case str(url) | [str(url)]:
            scheme = find_scheme(url)
        case None:
            scheme = "embedded"
        case _:
            scheme = "amqp"
    options = broker.get("transport_options") or {}
    if not isinstance(options, dict):
        return  # reported as no mapping
    if options and scheme in AMQP | {"embedded"}:
        why_not = "is for brokers that only Kombu knows, such as Redis, and for SQS"
        yield ("broker", "transport_options"), why_not
    for name in map(str, options):
        why_not_option = why_not_known(scheme, name)
        if why_not_option is not None:
            yield ("broker", "transport_options", name), why_not_option
    if scheme == "sqs":
        yield from _find_sqs_clashes(tree, broker, options)
    if scheme in REDIS:
        yield from _find_redis_clashes(tree, broker, options, scheme)


def _find_sqs_clashes(
    tree: Mapping[str, object], broker: Mapping[str, object], options: Mapping[object, object]
) -> Iterator[Clash]:
    if broker.get("staging_queue_type") == "classic":
        why_not = "has no meaning with SQS: its queues have no types"
        yield ("broker", "staging_queue_type"), why_not
    for name in (str(each) for each in options if each not in _OF_SQS):
        near = nearest(name, frozenset(_OF_SQS))
        hint = "" if near is None else f" (perhaps {near} is meant)"
        why_not = f"has no meaning with SQS{hint}; known are {', '.join(_OF_SQS)}"
        yield ("broker", "transport_options", name), why_not
    for name, most in ((VISIBILITY, _LONGEST_VISIBILITY), (WAIT, _LONGEST_WAIT)):
        given = options.get(name, 0)
        if isinstance(given, bool) or not str(given).isdecimal() or int(str(given)) > most:
            why_not = f"must be whole seconds, {most:,} at most"
            yield ("broker", "transport_options", name), why_not
    if str(options.get(VISIBILITY)).isdecimal():
        yield from _find_short_visibility(tree, options[VISIBILITY])
    yield from _find_short_drain(tree)


def _find_short_drain(tree: Mapping[str, object]) -> Iterator[Clash]:
    """Find a time in which the first copies of a batch may not have come: none of it is ever sent."""
    match tree:
        case {"retries": {"drain_timeout": drain}}:
            pass
        case _:
            return
    try:
        given = parse_duration(drain)
    except ValueError:
        return  # reported as no duration
    if given < _LEAST_DRAIN:
        why_not = (
            f"must be at least {_LEAST_DRAIN.total_seconds():g}s with SQS: in less time the first copies of "
            "a batch may not have come, and they would be staged again and again"
        )
        yield ("retries", "drain_timeout"), why_not


def _find_redis_clashes(
    tree: Mapping[str, object],
    broker: Mapping[str, object],
    options: Mapping[object, object],
    scheme: str,
) -> Iterator[Clash]:
    if broker.get("staging_queue_type") == "classic":
        why_not = "has no meaning with Redis: its queues have no types"
        yield ("broker", "staging_queue_type"), why_not
    match tree:
        case {"retries": {"keep_transient": True | "true"}}:
            why_not = "has no meaning with Redis: it keeps all messages alike"
            yield ("retries", "keep_transient"), why_not
        case _:
            pass
    known = {name: given for name, given in options.items() if name in OF_REDIS}
    try:
        RedisOptions.model_validate(known)
    except ValidationError as error:
        for each in error.errors():
            place = ("broker", "transport_options", str(each["loc"][0]))
            yield place, str(each.get("ctx", {}).get("error", each["msg"]))
    if scheme == "sentinel" and not options.get(MASTER):
        why_not = "must name the server that the sentinels watch: {master_name: NAME}"
        yield ("broker", "transport_options"), why_not
    if VISIBILITY in options:
        yield from _find_short_visibility(tree, options[VISIBILITY])


def find_alike_of(tree: Mapping[str, object]) -> Alike:
    """Return how the broker that is named compares names; reads values that are not checked yet."""
    match tree:
        case {"broker": {"url": str(url) | [str(url), *_], **broker}}:
            options = broker.get("transport_options")
            return find_alike(url, options if isinstance(options, dict) else {})
        case _:
            return are_same


def find_taken_name(name: str, others: Collection[str], tree: Mapping[str, object]) -> str | None:
    """Return why a queue of this name would be something else in Redis; None if it is only a queue.

    `others` are names of queues. Reads values that are not checked yet.
    """
    options: Mapping[object, object] = {}
    match tree:
        case {"broker": {"url": str(url) | [str(url)], **broker}} if find_scheme(url) in REDIS:
            given = broker.get("transport_options")
            options = given if isinstance(given, dict) else {}
        case _:
            return None
    if name in _KOMBUS_KEYS or name.startswith(_KEYS_BEGIN):
        return f"{name} is a key in which Kombu or Retrier keeps something else in Redis"
    separator, steps = options.get("sep", KOMBUS_SEP), options.get("priority_steps", KOMBUS_STEPS)
    if not isinstance(separator, str) or not separator or not isinstance(steps, list | tuple):
        return None  # reported as wrong options
    queue, _, step = name.rpartition(separator)
    is_list = step in map(str, steps) and (queue in others or (queue and separator == KOMBUS_SEP))
    return (
        f"{name} is the list of priority {step} of the queue {queue} in Redis" if is_list else None
    )


def _find_short_visibility(tree: Mapping[str, object], given: object) -> Iterator[Clash]:
    """Find a time after which a batch would be handed out again while its processor still has it."""
    place = ("broker", "transport_options", VISIBILITY)
    try:
        seconds = float(given) if isinstance(given, int | float | str) else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_KEPT or isinstance(given, bool):
        yield place, "must be a number of seconds"
        return
    match tree:
        case {"processor": {"lease": lease}}:
            pass
        case _:
            lease = _USUAL_LEASE
    try:
        least = parse_duration(lease).total_seconds()
    except ValueError:
        return  # reported as no duration
    if seconds < least:
        why_not = (
            f"must be at least {least:g} (processor.lease): in less time the copies of a batch would "
            f"be handed to others while its processor has them, is {seconds:g}"
        )
        yield place, why_not
