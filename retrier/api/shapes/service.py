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


class SentImport(TypedDict):
    """The queue to which an import was sent."""

    sent_to: str
