"""All settings with their defaults, and what does not go together in them."""

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from retrier.domain.breakers import BreakerRules
from retrier.domain.retention import RetentionTimes
from retrier.policy.patterns import Generated
from retrier.private_files import NOT_ASKED, is_encrypted
from retrier.settings.access import AccessSection, find_access_clashes
from retrier.settings.brokers import (
    SECURE,
    BrokerUrls,
    KombuOptions,
    find_alike_of,
    find_broker_clashes,
    find_taken_name,
)
from retrier.settings.dialects import DialectSection, find_dialect_clashes
from retrier.settings.fields import (
    AllowedHost,
    AllowedOrigin,
    Count,
    DatabaseUrl,
    DroppedHeader,
    Duration,
    DurationOrOff,
    HeaderName,
    KeptAlike,
    ListeningHost,
    OptionalQueue,
    QueueName,
    Section,
    Size,
    TrustedProxy,
    at_least,
    between,
    check_queue_name,
    read_off,
)
from retrier.settings.policies import BreakersSection, PoliciesSection
from retrier.settings.search import Search, find_field_clashes
from retrier.transport.queue_names import Alike, OwnQueues, find_alike

SettingProblem = tuple[tuple[str, ...], str]

_FILES = ("ca", "certificate", "key")


def _check_file(name: str) -> str:
    if name and not Path(name).is_file():
        raise ValueError("must name a file that exists")
    return name


def _check_authorities(name: str) -> str:
    if name:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(name)
        except OSError as error:  # an SSLError is one, too
            raise ValueError(f"must hold a certificate in PEM form ({_first(error)})") from None
    return name


File = Annotated[str, AfterValidator(_check_file)]
Authorities = Annotated[str, AfterValidator(_check_file), AfterValidator(_check_authorities)]


class BrokerTls(BaseModel):
    """How a connection with amqps:// or rediss:// is secured; an empty name is no file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    ca: Authorities = ""
    certificate: File = ""
    key: File = ""
    verify: bool = True


class ApiTls(BaseModel):
    """The certificate of the API, and its key; with empty names it speaks plain HTTP."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    certificate: File = ""
    key: File = ""


def _find_api_tls_clashes(tree: Mapping[str, object]) -> Iterator[SettingProblem]:
    match tree:
        case {"api": {"tls": dict(tls)}}:
            pass
        case _:
            return
    files = {name: str(tls[name]) for name in ("certificate", "key") if tls.get(name)}
    if not files or not all(Path(each).is_file() for each in files.values()):
        return
    if "certificate" not in files:
        yield ("api", "tls", "key"), "needs the certificate that it belongs to"
    elif is_encrypted(files.get("key", files["certificate"])):
        yield ("api", "tls", "key"), f"{NOT_ASKED}: name a file with the key as it is"
    else:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                files["certificate"], files.get("key")
            )
        except OSError as error:
            yield ("api", "tls", "certificate"), f"cannot be used with its key ({_first(error)})"


def find_tls_clashes(tree: Mapping[str, object]) -> Iterator[SettingProblem]:
    """Find what does not go together in `broker.tls`; reads values that are not checked yet."""
    yield from _find_api_tls_clashes(tree)
    match tree:
        case {"broker": {"tls": dict(tls), **broker}}:
            yield from _find_clashes(tls, broker.get("url"))
        case _:
            return


def _find_clashes(tls: Mapping[Any, Any], url: object) -> Iterator[SettingProblem]:
    urls = [url] if isinstance(url, str) else url if isinstance(url, list | tuple) else [""]
    # A file that does not exist is a problem of its own.
    files = {name: str(tls[name]) for name in _FILES if Path(str(tls.get(name) or "")).is_file()}
    unverified = str(tls.get("verify")).lower() == "false"
    if (files or unverified) and not all(str(each).lower().startswith(SECURE) for each in urls):
        yield ("broker", "tls"), "is for a broker.url that begins with amqps:// or rediss://"
    certificate, key = files.get("certificate"), files.get("key")
    if key and not tls.get("certificate"):
        yield ("broker", "tls", "key"), "needs the certificate that it belongs to"
    holder = key or certificate
    if holder and is_encrypted(holder):
        yield (
            ("broker", "tls", "key" if key else "certificate"),
            f"{NOT_ASKED}: name a file with the key as it is (openssl pkey -in FILE)",
        )
    elif certificate:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(certificate, key)
        except OSError as error:
            yield (
                ("broker", "tls", "certificate"),
                f"cannot be used with its key ({_first(error)}): both in PEM form, not encrypted",
            )


def _first(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)


_INSTANCE = re.compile(r"[A-Za-z0-9._-]+")
_ERROR_QUEUE = "error"
"""The error queue if none is named."""

SettingPath = tuple[int | str, ...]
Clash = tuple[SettingPath, str]


def staging_queue(instance: str) -> str:
    """Name the staging queue of an instance."""
    return f"{instance}.staging"


def _check_instance(instance: str) -> str:
    if not _INSTANCE.fullmatch(instance):
        raise ValueError("must consist of letters, digits, dots, dashes and underscores")
    if staging_queue(instance).startswith("amq."):
        raise ValueError("must not begin with amq: brokers keep such queue names to themselves")
    check_queue_name(staging_queue(instance))
    return instance


InstanceName = Annotated[str, AfterValidator(_check_instance)]


class ErrorQueue(Section):
    """A queue on which failed messages arrive, and what is assumed of its messages."""

    queue: QueueName
    dialect: str | None = None
    """The name of a dialect, Retrier's or one of `ingestion.dialects`."""
    destination: QueueName | None = None
    destinations: dict[str, QueueName] = Field(default_factory=dict)
    """Where retries go by what a library names instead of a queue."""
    take_from_work_queue: bool = False
    stream_header: HeaderName | None = None
    """The header with the stream id; None: that of `ingestion.stream_header`."""
    drop_headers: tuple[DroppedHeader, ...] = ()
    """Patterns of headers that retries of its messages go without."""


def _read_error_queue(value: object) -> object:
    return {"queue": value} if isinstance(value, str) else value


def find_clashes(tree: Mapping[str, object], instance: object) -> Iterator[Clash]:
    """Find the queues that cannot be used together, with the place of each in the tree.

    It reads values that are not checked yet, so that another wrong value does not hide a clash.
    """
    yield from find_tls_clashes(tree)
    yield from find_broker_clashes(tree)
    yield from find_dialect_clashes(tree)
    yield from find_field_clashes(tree)
    yield from find_access_clashes(tree)
    queues = _list_queues(tree)
    names = [str(name) for each in queues if (name := each.get("queue")) is not None]
    staging = staging_queue(str(instance))
    own, alike = name_own_queues(tree, instance), find_alike_of(tree)
    yield from _find_taken_names(tree, staging)
    for index, each in enumerate(queues):
        place = ("ingestion", "error_queues", index)
        name, destination = each.get("queue"), each.get("destination")
        if name is not None and (before := OwnQueues(names[:index], alike).find(str(name))):
            yield place, f"{name} is listed twice" + (f": as {before}" if before != name else "")
        if name is not None and alike(staging, str(name)):
            yield place, f"{name} is the staging queue of this instance"
        if destination is not None and destination in own:
            yield (*place, "destination"), f"{destination} is a queue that Retrier itself empties"
        mapped = each.get("destinations")
        for key, target in mapped.items() if isinstance(mapped, dict) else ():
            if target in own:
                yield (
                    (*place, "destinations", key),
                    f"{target} is a queue that Retrier itself empties",
                )
    match tree:
        case {"ingestion": {"forward_to": str(log)}} if log in own:
            # Each copy would be ingested as a failure, and copied again: for ever.
            yield ("ingestion", "forward_to"), f"{log} is a queue that Retrier itself empties"
        case _:
            pass
    match tree:
        case {"access": {"audit": {"head_to": str(kept)}}} if kept in own:
            yield ("access", "audit", "head_to"), f"{kept} is a queue that Retrier itself empties"
        case _:
            pass


def _find_taken_names(tree: Mapping[str, object], staging: str) -> Iterator[Clash]:
    """Find queues that have the name of something else in the broker, with the place of each."""
    named: list[Clash] = [(("instance",), staging)]
    for index, each in enumerate(_list_queues(tree)):
        place = ("ingestion", "error_queues", index)
        mapped = each.get("destinations")
        named.append((place, str(each.get("queue"))))
        named.append(((*place, "destination"), str(each.get("destination") or "")))
        for key, target in mapped.items() if isinstance(mapped, dict) else ():
            named.append(((*place, "destinations", str(key)), str(target)))
    match tree:
        case {"ingestion": {"forward_to": str(log)}}:
            named.append((("ingestion", "forward_to"), log))
        case _:
            pass
    everything = frozenset(name for _, name in named if name)
    for where, name in named:
        why_not = find_taken_name(name, everything, tree)
        if why_not is not None:
            yield where, why_not


def name_own_queues(tree: Mapping[str, object], instance: object) -> OwnQueues:
    """Return the queues that Retrier itself empties; reads values that are not checked yet."""
    names = [str(each.get("queue")) for each in _list_queues(tree)]
    return OwnQueues([*names, staging_queue(str(instance))], find_alike_of(tree))


def _list_queues(tree: Mapping[str, object]) -> list[Mapping[str, object]]:
    match tree:
        case {"ingestion": {"error_queues": [*entries]}}:
            return [each if isinstance(each, dict) else {"queue": each} for each in entries]
        case {"ingestion": {"error_queues": _}}:
            return []
        case _:
            return [{"queue": _ERROR_QUEUE}]


ErrorQueues = tuple[Annotated[ErrorQueue, BeforeValidator(_read_error_queue)], ...]


class Role(StrEnum):
    """A role of a process; one process may have all of them."""

    INGESTION = "ingestion"
    PROCESSOR = "processor"
    API = "api"


class Broker(Section):
    """The broker that holds the error queues, the staging queue and the destinations."""

    url: BrokerUrls = ("embedded:///./retrier-data/broker.db",)
    """One URL for each node of the broker that may be connected to."""
    staging_queue_type: Literal["quorum", "classic"] = "quorum"
    tls: BrokerTls = BrokerTls()
    transport_options: KombuOptions = Field(default_factory=dict)
    """Kombu's transport options, for brokers that it knows: those of Celery's settings."""

    @property
    def alike(self) -> Alike:
        """Return how this broker compares names of queues."""
        return find_alike(self.url[0], self.transport_options)


class Database(Section):
    """Where failed messages are kept."""

    url: DatabaseUrl = "sqlite:///./retrier-data/retrier.db"
    upgrade: bool = True


def _check_generated(pattern: str) -> str:
    Generated([pattern])
    return pattern


GeneratedName = Annotated[str, AfterValidator(_check_generated)]


class Ingestion(Section):
    """How failed messages are taken off the error queues."""

    error_queues: ErrorQueues = (ErrorQueue(queue=_ERROR_QUEUE),)
    prefetch: Annotated[Count, between(1, 65535)] = 1500
    declare_missing: bool = False
    forward_to: OptionalQueue = None
    """The log queue, which gets a copy of each failure; None: nothing is copied."""
    stream_header: HeaderName = "Retrier.Stream"
    """The header with the id of the stream that a message belongs to."""
    volatile_headers: tuple[HeaderName, ...] = ()
    """More headers, with `*`, that say nothing about which message it is."""
    generated_names: tuple[GeneratedName, ...] = ()
    """Patterns of what differs in the names of exceptions and frames that mean the same."""
    stream_order_header: HeaderName = "Retrier.StreamPosition"
    """The header with the position of a message in its stream: a number or a time."""
    dialects: tuple[DialectSection, ...] = ()
    """Formats of failures that are read without code."""


class Retries(Section):
    """How batches are forwarded, and how long the outcome of a retry is waited for."""

    forwarding_window: Annotated[Count, between(1, 1000)] = 200
    forwarding_window_bytes: Size = 16 * 1024 * 1024
    drain_timeout: Duration = timedelta(seconds=2)
    idle_wait: Duration = timedelta(seconds=30)
    presumed_after: DurationOrOff = None
    keep_transient: bool = False
    """Whether what came transient goes back transient: gone at the broker's next restart."""


class Processor(Section):
    """How processes agree on which one of them is the processor."""

    lease: Annotated[Duration, at_least("3s")] = timedelta(seconds=15)


OptionalPort = Annotated[Count, between(0, 65535)] | None


class Api(Section):
    """Where the HTTP API listens (port 0: any free port), and who may ask it."""

    host: ListeningHost = "127.0.0.1"
    port: Annotated[Count, between(0, 65535)] = 33333
    allowed_hosts: tuple[AllowedHost, ...] = ()
    allowed_origins: tuple[AllowedOrigin, ...] = ()
    trusted_proxies: tuple[TrustedProxy, ...] = ()
    tls: ApiTls = ApiTls()
    health_port: Annotated[OptionalPort, BeforeValidator(read_off)] = None
    """The port of health and metrics, where nothing else is answered; None: they are on `port`."""


class Retention(Section):
    """How long things are kept; None (`off`) stands for ever."""

    resolved: DurationOrOff = timedelta(days=10)
    archived: DurationOrOff = timedelta(days=10)
    presumed: KeptAlike = "resolved"
    operations: Annotated[DurationOrOff, at_least("1h")] = timedelta(days=90)
    imports: DurationOrOff = None
    events: DurationOrOff = timedelta(days=14)
    second_look: Duration = timedelta(hours=1)
    """How far apart two looks are that must agree before anything is deleted or presumed."""

    @property
    def times(self) -> RetentionTimes:
        """How long messages, operations and failed imports are kept."""
        return RetentionTimes(
            resolved=self.resolved,
            presumed=self.resolved if isinstance(self.presumed, str) else self.presumed,
            archived=self.archived,
            operations=self.operations,
            imports=self.imports,
        )


class Log(Section):
    """What is logged, and in which form."""

    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Section):
    """All settings, checked."""

    instance: InstanceName = "retrier"
    broker: Broker = Broker()
    database: Database = Database()
    ingestion: Ingestion = Ingestion()
    retries: Retries = Retries()
    processor: Processor = Processor()
    api: Api = Api()
    retention: Retention = Retention()
    search: Search = Search()
    log: Log = Log()
    access: AccessSection | None = None
    """Who is let in; None: whoever reaches the address, which is one of this machine then."""
    breakers: BreakersSection = None
    """The breaker of all that no policy has one for; None: it has none."""
    policies: PoliciesSection | None = None
    """None: there is no such section, and every failed message waits for a person."""

    @property
    def staging_queue(self) -> str:
        """Name the staging queue of this instance."""
        return staging_queue(self.instance)

    @property
    def breaker_rules(self) -> BreakerRules:
        """When breakers open."""
        return BreakerRules(default=None if self.breakers is None else self.breakers.terms)
