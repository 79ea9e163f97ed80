"""`retrier check` and `retrier db upgrade`: both work while no service is running."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retrier.app.composition import make_mapping, make_transport, open_database
from retrier.errors import AccessRefused, BrokerUnavailable, DatabaseRefused, DatabaseUnavailable
from retrier.ingestion.inspection import Missing, Unusable, Usable, inspect
from retrier.settings import ErrorQueue, Settings
from retrier.store.engine.database import Database
from retrier.store.verbs.trial import find_missing_rights
from retrier.store.verbs.upgrade import find_revision, upgrade_schema
from retrier.transport.seam import Queues, Transport

_UNSEEN = (
    "not tried: whether it has a dead-letter exchange, which is shown only to who may configure it"
)
_LIMITED = "it may drop messages that are delivered too often (delivery limit)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the check."""

    name: str
    ok: bool
    text: str
    out_of_reach: bool = False
    """Whether it did not answer: a later try may succeed. Else a person has to change something."""


def check(settings: Settings) -> tuple[CheckResult, ...]:
    """Connect to the database and the broker, and try what `run` needs; nothing of it stays."""
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
        return _check_folder("database", Path(db.place))
    try:
        return _look_into_database(settings, db)
    except DatabaseUnavailable as error:
        out_of_reach = not isinstance(error, DatabaseRefused)
        return CheckResult(name="database", ok=False, text=str(error), out_of_reach=out_of_reach)
    finally:
        db.dispose()


def _look_into_database(settings: Settings, db: Database) -> CheckResult:
    # The rights first: without them the revision may not be read, and that sounds like a failure.
    problems = find_missing_rights(db, upgrading=False)
    if problems:
        return CheckResult(name="database", ok=False, text="; ".join(problems))
    revision = find_revision(db)
    if revision.is_current:
        text = f"ok, {db.place}, schema at revision {revision.current}"
        return CheckResult(name="database", ok=True, text=text)
    if settings.database.upgrade:
        problems = find_missing_rights(db, upgrading=True)
    text = f"ok, {db.place}, schema has to be upgraded to revision {revision.wanted}"
    return CheckResult(name="database", ok=not problems, text="; ".join(problems) or text)


def _check_folder(name: str, file: Path) -> CheckResult:
    """Check that a file that is missing can be made; its folder is made with it."""
    existing = next(each for each in file.absolute().parents if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(name=name, ok=True, text=f"missing: will be made at {file}")
    reason = "may not be written to" if existing.is_dir() else "is no folder"
    return CheckResult(
        name=name, ok=False, text=f"missing, and cannot be made at {file}: {existing} {reason}"
    )


def _check_broker(settings: Settings) -> list[CheckResult]:
    transport = make_transport(settings)
    if settings.broker.is_embedded and not Path(transport.place).exists():
        return [_check_folder("broker", Path(transport.place))]
    try:
        queues = transport.queues()
    except BrokerUnavailable as error:
        return [_word_broker(error)]
    try:
        text = "; ".join(["ok", *_find_lost_nodes(settings)])
        return [
            CheckResult(name="broker", ok=True, text=text),
            *_check_queues(settings, queues),
            _check_staging(settings, transport),
        ]
    except BrokerUnavailable as error:
        return [_word_broker(error)]
    finally:
        queues.close()


def _word_broker(error: BrokerUnavailable) -> CheckResult:
    out_of_reach = not isinstance(error, AccessRefused)
    return CheckResult(name="broker", ok=False, text=str(error), out_of_reach=out_of_reach)


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
            why_not = queues.why_not_declarable(queue.queue)
            text = why_not or "missing: will be declared"
            return CheckResult(name=name, ok=why_not is None, text=text)
        case Missing(reason=reason) | Unusable(reason=reason):
            return CheckResult(name=name, ok=False, text=reason)
        case Usable() as usable:
            text = "; ".join(_describe(queues, queue.queue, usable))
            return CheckResult(name=name, ok=True, text=text)


def _describe(queues: Queues, queue: str, usable: Usable) -> Iterator[str]:
    yield f"ok, {usable.look.ready} messages ready"
    if queues.may_limit_deliveries(queue):
        yield _LIMITED
    if usable.doubt is not None:
        yield usable.doubt
    if usable.unseen:
        yield _UNSEEN


def _check_staging(settings: Settings, transport: Transport) -> CheckResult:
    trial = transport.try_out(settings.staging_queue)
    tried = "; ".join(["ok", *(f"not tried: {each}" for each in trial.untried)])
    return CheckResult(
        name=f"staging queue {settings.staging_queue}",
        ok=not trial.problems,
        text="; ".join(trial.problems) or tried,
    )
