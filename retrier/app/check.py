"""`retrier check` and `retrier db upgrade`: both work while no service is running."""

from dataclasses import dataclass
from pathlib import Path

from retrier.app.composition import make_mapping, make_transport, open_database
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.ingestion.inspection import Missing, Unusable, Usable, inspect
from retrier.settings import ErrorQueue, Settings
from retrier.store.verbs.upgrade import find_revision, upgrade_schema
from retrier.transport.seam import Queues

_LIMITED = "it may drop messages that are delivered too often (delivery limit)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the check."""

    name: str
    ok: bool
    text: str


def check(settings: Settings) -> tuple[CheckResult, ...]:
    """Connect to the database and the broker, and look at both; changes nothing."""
    return (_check_database(settings), *_check_broker(settings))


def upgrade_database(settings: Settings) -> str:
    """Upgrade the schema to the newest revision; return a sentence. Raises DatabaseUnavailable."""
    db = open_database(settings)
    try:
        before = upgrade_schema(db)
    finally:
        db.dispose()
    if before.is_current:
        return f"the database at {db.place} is at revision {before.wanted} already"
    origin = before.current or "an empty schema"
    return f"the database at {db.place} was brought from {origin} to revision {before.wanted}"


def _check_database(settings: Settings) -> CheckResult:
    db = open_database(settings)
    if db.is_sqlite and not Path(db.place).exists():
        # Connecting would create an empty file, and so hide that a database was lost.
        return CheckResult(name="database", ok=True, text=f"missing: will be made at {db.place}")
    try:
        revision = find_revision(db)
    except DatabaseUnavailable as error:
        return CheckResult(name="database", ok=False, text=str(error))
    finally:
        db.dispose()
    if revision.is_current:
        text = f"ok, {db.place}, schema at revision {revision.current}"
    else:
        text = f"ok, {db.place}, schema has to be upgraded to revision {revision.wanted}"
    return CheckResult(name="database", ok=True, text=text)


def _check_broker(settings: Settings) -> list[CheckResult]:
    transport = make_transport(settings)
    if settings.broker.is_embedded and not Path(transport.place).exists():
        text = f"missing: will be made at {transport.place}"
        return [CheckResult(name="broker", ok=True, text=text)]
    try:
        queues = transport.queues()
    except BrokerUnavailable as error:
        return [CheckResult(name="broker", ok=False, text=str(error))]
    try:
        text = "; ".join(["ok", *_find_lost_nodes(settings)])
        return [CheckResult(name="broker", ok=True, text=text), *_check_queues(settings, queues)]
    except BrokerUnavailable as error:
        return [CheckResult(name="broker", ok=False, text=str(error))]
    finally:
        queues.close()


def _find_lost_nodes(settings: Settings) -> list[str]:
    """Return why nodes cannot be reached, if there are several. One that answers is enough."""
    urls = settings.broker.url
    lost = []
    for url in urls if len(urls) > 1 else ():
        one = settings.broker.model_copy(update={"url": (url,)})
        try:
            make_transport(settings.model_copy(update={"broker": one})).queues().close()
        except BrokerUnavailable as error:
            lost.append(str(error))
    return lost


def _check_queues(settings: Settings, queues: Queues) -> list[CheckResult]:
    return [_check_queue(settings, queues, each) for each in settings.ingestion.error_queues]


def _check_queue(settings: Settings, queues: Queues, queue: ErrorQueue) -> CheckResult:
    name = f"error queue {queue.queue}"
    match inspect(queues, make_mapping(queue)):
        case Missing() if settings.declares_missing:
            return CheckResult(name=name, ok=True, text="missing: will be declared")
        case Missing(reason=reason) | Unusable(reason=reason):
            return CheckResult(name=name, ok=False, text=reason)
        case Usable(look=look, doubt=doubt):
            limited = queues.may_limit_deliveries(queue.queue)
            warnings = [_LIMITED] if limited else []
            warnings += [doubt] if doubt else []
            text = "; ".join([f"ok, {look.ready} messages ready", *warnings])
            return CheckResult(name=name, ok=True, text=text)
