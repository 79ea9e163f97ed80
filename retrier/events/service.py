"""Events of the service, of the requests it gets, of its policies and of streams."""

from retrier.domain.values import dataclass
from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived(Event):
    """One transaction of a request begins: a retry, a message action, a redirect."""

    name = "request.before_record"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecorded(Event):
    """One transaction of a request is committed; the client has no answer yet."""

    name = "request.after_record"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportStamped(Event):
    """A failed import is stamped: it may be sent from now on, and is not yet."""

    name = "import.stamped"
    import_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPublished(Event):
    """The broker has answered, or will not any more; what became of it is not recorded."""

    name = "import.published"
    import_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(Event):
    """A client was told that what it asked for is not done; many show no more than that it failed."""

    name = "request.refused"
    method: str
    path: str
    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAsked(Event):
    """A new operation is in the database; `total` is how many messages it has."""

    name = "request.retry_asked"
    operation_id: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EditAsked(Event):
    """An edit of a message is in the database and has its claim; the client has no answer yet."""

    name = "edit.asked"
    operation_id: str
    unique_message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRecorded(Event):
    """An edited message was sent, and its original is resolved; its copy is not acknowledged yet."""

    name = "edit.recorded"
    batch_id: str
    operation_id: str


EditEffect = EditAsked | EditRecorded
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDead(Event):
    """A person declared a message dead."""

    name = "dead.declared"
    unique_message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarting(Event):
    """The process starts, with these roles."""

    name = "service.starting"
    version: str
    instance: str
    roles: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultDatabaseUsed(Event):
    """Neither the file of settings nor the environment names a database."""

    name = "service.default_database"
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobUsed(Event):
    """A variable by a name that other systems use stands for a setting of ours."""

    name = "service.knob_used"
    variable: str
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesKnown(Event):
    """The places of broker and database are known."""

    name = "service.places"
    broker: str
    database: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisesKept(Event):
    """Which promises hold with this broker, in words."""

    name = "service.promises"
    broker: str
    promises: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisesNotKept(Event):
    """Which promises do not hold with this broker, in words."""

    name = "service.promises_not_kept"
    broker: str
    promises: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWarned(Event):
    """Why the broker may lose messages, or takes none, in words; once until it is over."""

    name = "service.broker_warned"
    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarted(Event):
    """All parts are started."""

    name = "service.started"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFailed(Event):
    """The thread of a part ended with an exception."""

    name = "service.part_failed"
    part: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStopping(Event):
    """A signal asks for the stop."""

    name = "service.stopping"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStopped(Event):
    """All parts are stopped; this is the last event of the process."""

    name = "service.stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUnreachable(Event):
    """The start waits for the database."""

    name = "database.unreachable"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReached(Event):
    """The database was reached after a wait."""

    name = "database.reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsEnded(Event):
    """Database sessions of frozen or lost processes were ended, because they held locks."""

    name = "database.sessions_ended"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsUnheard(Event):
    """The database's notifications do not arrive: requests of other processes are looked for."""

    name = "database.notifications_missing"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsHeard(Event):
    """The database's notifications arrive again."""

    name = "database.notifications_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessesDiffer(Event):
    """Processes of this database differ in what they should have in common."""

    name = "processes.differ"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessesAgree(Event):
    """The processes have the same again."""

    name = "processes.agree"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnreachable(Event):
    """The start waits for the broker."""

    name = "broker.unreachable"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReached(Event):
    """The broker was reached after a wait."""

    name = "broker.reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiListening(Event):
    """The API accepts requests."""

    name = "api.listening"
    host: str
    port: int
    page: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRenewed(Event):
    """The certificate of the API was read again, as a signal asked for."""

    name = "api.certificate_renewed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRefused(Event):
    """The certificate of the API cannot be used as it is in its file now: the old one goes on."""

    name = "api.certificate_refused"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthListening(Event):
    """Health and metrics can be read; this process has no API."""

    name = "health.listening"
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthNotListening(Event):
    """The port is taken by another process; this one works without health and metrics."""

    name = "health.not_listening"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingUnavailable(Event):
    """Traces are configured, but the packages that send them are not installed."""

    name = "tracing.unavailable"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickFailed(Event):
    """A recurring task failed, for the first time in a row."""

    name = "tick.failed"
    tick: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRecovered(Event):
    """A recurring task works again."""

    name = "tick.recovered"
    tick: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPresumed(Event):
    """One transaction is committed: old pending retries are presumed to have succeeded."""

    name = "upkeep.presumed"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriesPresumed(Event):
    """A look at all pending retries is over; it presumed some of them to have succeeded."""

    name = "retries.presumed"
    count: int


ImportEffect = ImportStamped | ImportPublished
"""Each follows an effect that a killed process leaves behind: tests kill a process at each."""

RequestEffect = RequestReceived | RequestRecorded
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesTaken(Event):
    """The file has changed, and its policies are in force."""

    name = "policies.taken"
    file: str
    set_hash: str
    rules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesWrong(Event):
    """The file has changed and is wrong: the set before it stays in force."""

    name = "policies.wrong"
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesRight(Event):
    """A file that was wrong is right, and its policies are in force."""

    name = "policies.right"
    file: str
    set_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReleased(Event):
    """A person has let go of messages that earlier ones of their stream held."""

    name = "stream.released"
    queue: str
    stream_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLineBegun(Event):
    """A line of the audit is about to be written."""

    name = "audit.before_line"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLineWritten(Event):
    """A line is written; a power cut may still take it."""

    name = "audit.after_line"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLineSafe(Event):
    """A line is on the disk; what it is about goes on only now."""

    name = "audit.after_sync"


AuditEffect = AuditLineBegun | AuditLineWritten | AuditLineSafe
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFailed(Event):
    """No line can be written: whatever is asked for is refused until one can."""

    name = "audit.failed"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecovered(Event):
    """Lines can be written again."""

    name = "audit.recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTorn(Event):
    """Behind the last line stood the rest of one that a crash or a full disk had ended."""

    name = "audit.torn"
    place: str
    size: int
