"""The service itself, its policies, breakers and streams, and failed imports."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from retrier.api.shapes import Maybe, ReasonCount, Time, Working, one_of
from retrier.api.shapes.messages import MessageStatus
from retrier.domain.breakers import BreakerState, Per
from retrier.domain.failed_imports import ImportState
from retrier.domain.failed_message import Disposition
from retrier.domain.streams import StreamRule
from retrier.policy.delays import Spread
from retrier.policy.policy_set import GivingUp, Unmatched


class Health(TypedDict):
    """The process answers."""

    status: Literal["healthy"]


class Readiness(TypedDict):
    """Whether every part works, and why one does not."""

    status: Literal["ready", "not ready"]
    parts: Mapping[str, Working]


class DeliveryLedger(TypedDict):
    """What came, and what it was: the difference is 0 when everything adds up."""

    taken_off: int
    reimported: int
    new: int
    repeated: int
    redelivered: int
    confirmations: int
    own_copies: int
    failed_imports: int
    difference: int


class MessageLedger(TypedDict):
    """New messages, and where they are: the difference is 0 when everything adds up."""

    new: int
    unresolved: int
    retry_issued: int
    resolved: int
    archived: int
    deleted: int
    difference: int


class Ledger(TypedDict):
    """Both sums, term by term."""

    deliveries: DeliveryLedger
    messages: MessageLedger


class Poison(TypedDict):
    """After how many crashes of a worker a message is poison."""

    crashes: int


class ReasonRule(TypedDict):
    """Gives a reason to the failures that match all its conditions."""

    reason: str
    queue: NotRequired[Maybe[Sequence[str]]]
    message_type: NotRequired[Maybe[Sequence[str]]]
    exception: NotRequired[Maybe[Sequence[str]]]
    failure_reason: NotRequired[Maybe[Sequence[str]]]
    built_in: NotRequired[Maybe[Sequence[str]]]
    message: NotRequired[Maybe[str]]


class Backoff(TypedDict):
    """How the delays grow; durations are texts such as `30s`."""

    kind: Literal["exponential", "linear", "fixed", "list"]
    first: NotRequired[str]
    factor: NotRequired[float]
    step: NotRequired[str]
    cap: NotRequired[Maybe[str]]
    delays: NotRequired[Sequence[str]]


class AdditiveJitter(TypedDict):
    """At most so much is added to a delay."""

    additive: str


class Delay(TypedDict):
    """Between which delays a message is retried, in seconds."""

    shortest: float
    longest: float


class PolicyRule(TypedDict):
    """What is retried how often, after which delays."""

    name: str
    match: Mapping[str, Sequence[str]]
    attempts: int
    backoff: Backoff
    jitter: Spread | AdditiveJitter
    never: Sequence[str]
    only: Sequence[str]
    then: GivingUp
    stream: StreamRule | None
    delays: Sequence[Delay]


class PolicyDefinition(TypedDict):
    """What a set of policies consists of, with all presets filled in."""

    default: Unmatched
    per_second: int
    notices: NotRequired[Maybe[str]]
    poison: Poison
    classify: Sequence[ReasonRule]
    rules: Sequence[PolicyRule]


class JudgingProcess(TypedDict):
    """A process and the set by which it judges."""

    session_id: str
    instance: str
    host: str
    pid: int
    set_hash: str
    file_time: NotRequired[Maybe[Time]]
    loaded_at: Time
    problems: Sequence[str]
    seen_at: Time


class Policies(PolicyDefinition):
    """The set in force here, what each process judges by, and in what processes differ."""

    configured: bool
    valid: bool
    problems: Sequence[str]
    set_hash: str
    file_time: NotRequired[Maybe[Time]]
    loaded_at: NotRequired[Maybe[Time]]
    processes: Sequence[JudgingProcess]
    differences: Sequence[str]


class RuleDecision(TypedDict):
    """A decision and the rule that made it, if one did."""

    rule: NotRequired[Maybe[str]]
    decision: Disposition
    reason: NotRequired[Maybe[str]]
    why: NotRequired[Maybe[str]]


class DecisionCount(TypedDict):
    """So many failures are decided in this way."""

    old: RuleDecision
    new: RuleDecision
    count: int


class SimulatedSample(TypedDict):
    """One failure that would be decided differently."""

    id: str
    time: Time
    queue: str
    failures: int
    old: RuleDecision
    new: RuleDecision


class Simulation(TypedDict):
    """What other policies would have decided, beside what was decided."""

    set_hash: str
    judged: int
    changed: int
    oldest: NotRequired[Maybe[Time]]
    stopped: NotRequired[Maybe[str]]
    counts: Sequence[DecisionCount]
    samples: Sequence[SimulatedSample]


class SetByHand(TypedDict):
    """What a person has said about a breaker, until then."""

    state: BreakerState
    until: Time
    who: str
    why: NotRequired[Maybe[str]]


class Breaker(TypedDict):
    """A breaker; `waits_because` if messages wait for it."""

    key: str
    per: Per
    name: str
    state: BreakerState
    waits_because: NotRequired[Maybe[str]]
    since: NotRequired[Maybe[Time]]
    changed_at: Time
    due_at: NotRequired[Maybe[Time]]
    failed: NotRequired[Maybe[int]]
    sent: NotRequired[Maybe[int]]
    cooldown_seconds: NotRequired[Maybe[float]]
    rule: NotRequired[Maybe[str]]
    by_hand: NotRequired[Maybe[SetByHand]]


class BreakerSet(Breaker):
    """A breaker that was set by hand; `never_seen`: nothing was ever sent there."""

    never_seen: bool


class StreamHead(TypedDict):
    """The earliest open message of a stream, for which the others wait."""

    id: str
    status: MessageStatus
    disposition: Disposition
    retry_at: NotRequired[Maybe[Time]]
    state: str


class Stream(TypedDict):
    """A stream: how much of it is open and held, and what its head waits for."""

    id: str
    queue: str
    open: int
    held: int
    released: int
    head: StreamHead


class StreamMessage(TypedDict):
    """An open message of a stream, and what holds it if something does."""

    id: str
    status: MessageStatus
    disposition: Disposition
    retry_at: NotRequired[Maybe[Time]]
    rule: NotRequired[Maybe[str]]
    released: bool
    on_its_way: bool
    first_failure: Time
    last_failure: Time
    held_because: NotRequired[Maybe[str]]


class StreamDetails(Stream):
    """A stream with one page of its open messages, in its order."""

    messages: Sequence[StreamMessage]


class ReleasedMessages(TypedDict):
    """What was let go."""

    released: int
    ids: Sequence[str]
    not_held: Sequence[str]


class ImportSend(TypedDict):
    """Where an import was sent, if nobody knows whether it arrived."""

    to: str
    since: Time
    requested_by: str


class Import(TypedDict):
    """A failed import as lists show it."""

    id: str
    error_queue: str
    reason: str
    received_at: Time
    state: Annotated[str, one_of(ImportState)]
    properties_size: int
    body_size: int
    send: NotRequired[Maybe[ImportSend]]


class ShownBytes(TypedDict):
    """The beginning of bytes, as text or in base64."""

    encoding: Literal["base64", "utf-8"]
    content: str
    is_whole: bool


class ImportDetails(Import):
    """A failed import with what can be read of it, and the beginnings of its bytes."""

    unreadable: NotRequired[Maybe[str]]
    properties: Mapping[str, object]
    headers: Mapping[str, object]
    raw_properties: ShownBytes
    body: ShownBytes
    body_url: str


class ReadAgain(TypedDict):
    """How many imports became what, and why the others did not."""

    reimported: int
    failed_message: int
    stored_before: int
    confirmation: int
    own_copy: int
    failed_message_id: NotRequired[Maybe[str]]
    kept: Sequence[ReasonCount]
    skipped: Sequence[ReasonCount]


class TriedImport(TypedDict):
    """What a failed import would be, and what its retry would leave out; a fact that is not known is not there."""

    id: str
    error_queue: str
    becomes: str
    reason: NotRequired[str]
    of: NotRequired[str]
    dialect: NotRequired[str]
    queue: NotRequired[str]
    destination: NotRequired[str]
    endpoint: NotRequired[str]
    message_type: NotRequired[str]
    message_id: NotRequired[str]
    exception_type: NotRequired[str]
    exception_message: NotRequired[str]
    stack_trace: NotRequired[str]
    failure_reason: NotRequired[str]
    time_of_failure: NotRequired[str]
    attempts: NotRequired[int]
    stream: NotRequired[str]
    left_out: NotRequired[Sequence[str]]
    goes_back: NotRequired[str]


class TriedImports(TypedDict):
    """What the newest failed imports would be, and how many there are of which these are the newest."""

    total: int
    messages: Sequence[TriedImport]


class SentImport(TypedDict):
    """The queue to which an import was sent."""

    sent_to: str


class EditConfiguration(TypedDict):
    """Whether messages can be edited, and which headers an edit may not change."""

    enabled: bool
    locked_headers: Sequence[str]
    sensitive_headers: Sequence[str]


class EditOutcome(TypedDict):
    """Whether an edit was taken, and if not who was faster."""

    edit_ignored: bool
    edited_by: NotRequired[Maybe[str]]


class KnownEndpoint(TypedDict):
    """An endpoint at which messages failed."""

    id: str
    name: str
    host_display_name: str
    monitored: bool
    monitor_heartbeat: bool
    is_sending_heartbeats: bool


class AuditCount(TypedDict):
    """How many audited messages there were on a day."""

    utc_date: str
    count: int


class EndpointSettings(TypedDict):
    """How instances of an endpoint are tracked; without a name: of all others."""

    name: str
    track_instances: bool


class Heartbeats(TypedDict):
    """How many endpoints have a heartbeat, and how many have none."""

    active: int
    failing: int


class License(TypedDict):
    """A license that never ends: none is needed."""

    trial_license: bool
    edition: str
    registered_to: str
    upgrade_protection_expiration: str
    expiration_date: str
    status: str
    license_type: str
    instance_name: str
    license_status: str
    products: Sequence[str]
    has_endpoint_metadata: bool
    license_extension_url: str


class ConnectionTest(TypedDict):
    """What came of the trial of a connection."""

    connection_successful: bool
    connection_error_messages: Sequence[str]
    diagnostics: str


class UsageTest(TypedDict):
    """What came of the trials of the connections that count usage."""

    transport: str
    audit_connection_result: ConnectionTest
    monitoring_connection_result: ConnectionTest
    broker_connection_result: ConnectionTest


class UsageSettings(TypedDict):
    """The settings by which usage is counted."""

    service_control: Sequence[str]
    monitoring: Sequence[str]
    broker: Sequence[str]


class UsageReport(TypedDict):
    """Whether there is a report of usage, and why not."""

    report_can_be_generated: bool
    reason: str


class MailSettings(TypedDict):
    """Whether mails are sent."""

    enabled: bool
    enable_tls: bool


class Logging(TypedDict):
    """Where the log is, and what it tells."""

    log_path: str
    logging_level: str


class ConfiguredHost(TypedDict):
    """The instance and its log."""

    instance_name: str
    logging: Logging


class DataRetention(TypedDict):
    """How long archived messages are kept: days, hours, minutes and seconds."""

    error_retention_period: str


class PerformanceTuning(TypedDict):
    """What ServiceControl can be tuned by."""

    http_default_connection_limit: int
    external_integrations_dispatching_batch_size: int


class ConfiguredTransport(TypedDict):
    """The broker and its queues."""

    transport_type: str
    error_log_queue: NotRequired[Maybe[str]]
    error_queue: NotRequired[Maybe[str]]
    forward_error_messages: bool


class Plugins(TypedDict):
    """What plugins are told."""

    heartbeat_grace_period: str


class Configuration(TypedDict):
    """The settings that clients read."""

    host: ConfiguredHost
    data_retention: DataRetention
    performance_tunning: PerformanceTuning
    persistence_settings: Mapping[str, str]
    transport: ConfiguredTransport
    plugins: Plugins


class Authentication(TypedDict):
    """How clients log in: where they get a token, and for whom it is meant."""

    enabled: bool
    role_based_authorization_enabled: bool
    client_id: str
    authority: str
    audience: str
    api_scopes: str


class MyRoute(TypedDict):
    """A route that the client may call."""

    method: str
    url_template: str


class MyRoutes(TypedDict):
    """What the client may call."""

    roles: Sequence[str]
    routes: Sequence[MyRoute]


class Enabled(TypedDict):
    """Whether something is there."""

    Enabled: bool


class ConnectionSettings(TypedDict):
    """What an endpoint has to be told."""

    ErrorQueue: str
    Heartbeats: Enabled
    CustomChecks: Enabled
    SagaAudit: Enabled
    MessageAudit: Enabled


class Connection(TypedDict):
    """What an endpoint has to be told to send here, and what is wrong with it."""

    settings: ConnectionSettings
    errors: Sequence[str]


class AccessToken(TypedDict):
    """A token for programs, without the token itself. No `queues` is all of them."""

    name: str
    role: str
    queues: NotRequired[list[str]]
    expires_at: NotRequired[Time]
    created_at: Time
    created_by: str
    revoked_at: NotRequired[Time]
    revoked_by: NotRequired[str]


class NewToken(TypedDict):
    """What a new token is: shown once, and never again."""

    name: str
    token: str


class NamedThing(TypedDict):
    """What an id names: a message, operation, archive, group or import."""

    kind: str
    id: str


class WayFound(TypedDict):
    """How many messages one way finds; `conditions` are those of a list. `more`: it ended there."""

    by: str
    conditions: dict[str, str]
    count: int
    more: bool


class FullTextState(TypedDict):
    """Whether words are looked for, and how far they are behind what is stored."""

    enabled: bool
    allowed: bool
    unread: int
    backlog: int
    behind_seconds: float


class SearchAnswer(TypedDict):
    """What a text names, and by what messages are found."""

    named: list[NamedThing]
    found: list[WayFound]
    undeclared: list[str]
    full_text: FullTextState


class Reindexed(TypedDict):
    """How many messages were read anew, with how many values; without `after` it was the end."""

    read: int
    values: int
    passed_over: int
    after: NotRequired[Maybe[int]]
