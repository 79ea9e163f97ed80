"""`retrier check` and `retrier db upgrade`: both work while no service is running."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from retrier import __version__
from retrier.app.parts import declares_missing, make_mapping, make_transport, open_database
from retrier.app.schedule import DEPTHS_WHERE_PAID
from retrier.domain.processes import RunningProcess, find_differences
from retrier.domain.streams import StreamRule
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.errors import (
    AccessRefused,
    BrokerUnavailable,
    ConfigurationError,
    ConnectionLimit,
    DatabaseRefused,
    DatabaseUnavailable,
)
from retrier.ingestion.ingestor import (
    Missing,
    Unusable,
    Usable,
    describe_limit,
    inspect,
)
from retrier.policy.policy_set import PolicySet
from retrier.private_files import find_open_to_others
from retrier.settings import ErrorQueue, Settings, make_definition
from retrier.store.engine.database import Database
from retrier.store.engine.requests import WHY_UNHEARD, hears_requests
from retrier.store.processes import list_processes
from retrier.store.recovery import get_recovery
from retrier.store.revisions import SchemaRevision
from retrier.store.upgrade import find_revision, upgrade_schema
from retrier.store.upkeep import find_missing_rights, find_session_warnings, find_vacuum_warnings
from retrier.store.words import get_lag
from retrier.transport.capabilities import list_kept, list_not_kept
from retrier.transport.seam import CountsReceives, KnowsKeys, KnowsNames, Queues, Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the check."""

    name: str
    ok: bool
    text: str
    out_of_reach: bool = False
    """Whether it did not answer: a later try may succeed. Else a person has to change something."""


def check_folder(name: str, file: Path) -> CheckResult:
    """Check that a file that is missing can be made; its folder is made with it."""
    existing = next(each for each in file.absolute().parents if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(name=name, ok=True, text=f"missing: will be made at {file}")
    reason = "may not be written to" if existing.is_dir() else "is no folder"
    return CheckResult(
        name=name, ok=False, text=f"missing, and cannot be made at {file}: {existing} {reason}"
    )


_NO_DESTINATION = (
    "warning: it does not exist, and retries to it fail. Make it, or name another destination"
)
_BESIDE_INGESTION = 6
"""Connections of the processor, of copies, of looks at queues and destinations, of failed imports."""
_UNSEEN = (
    "not tried: whether it has a dead-letter exchange, which is shown only to who may configure it"
)

_MAY_LOSE = "the server itself may lose messages"
_DECLARED = (
    "will be declared durable, without arguments; the broker refuses (406) a program that declares "
    "it with arguments: start that program first, and its queue is taken as it is"
)


def check_broker(settings: Settings) -> list[CheckResult]:
    """Try what `run` needs of the broker; nothing that is made stays."""
    transport = make_transport(settings)
    if transport.capabilities.in_file and not Path(transport.place).exists():
        return [check_folder("broker", Path(transport.place))]
    try:
        queues = transport.queues()
    except BrokerUnavailable as error:
        return [_word_broker(error, _describe_needed(settings, transport))]
    try:
        needed = _describe_needed(settings, transport)
        text = "; ".join([f"ok, {transport.place}", *needed, *_find_lost_nodes(settings)])
        return [
            CheckResult(name="broker", ok=True, text=text),
            *_check_queues(settings, transport, queues),
            *_check_destinations(settings, queues),
            *_check_log_queue(settings, queues),
            *_check_notices(settings, queues),
            *_check_heads(settings, queues),
            *_check_staging(settings, transport),
        ]
    except BrokerUnavailable as error:
        return [_word_broker(error, _describe_needed(settings, transport))]
    finally:
        queues.close()


def _tell_promises(settings: Settings) -> Iterator[CheckResult]:
    """Say which promises hold with this broker, and in another line which do not."""
    told = make_transport(settings).capabilities
    kept, not_kept = "; ".join(list_kept(told)), "; ".join(list_not_kept(told))
    if kept:
        yield CheckResult(name="promises", ok=True, text=f"hold with {told.broker}: {kept}")
    if not_kept:
        text = f"warning: do not hold with {told.broker}: {not_kept}"
        yield CheckResult(name="promises", ok=True, text=text)


def _word_broker(error: BrokerUnavailable, needed: Sequence[str]) -> CheckResult:
    out_of_reach = not isinstance(error, AccessRefused)
    more = needed if isinstance(error, ConnectionLimit) else ()
    text = "; ".join([str(error), *more])
    return CheckResult(name="broker", ok=False, text=text, out_of_reach=out_of_reach)


def _describe_needed(settings: Settings, transport: Transport) -> list[str]:
    """Say how many connections a process with all roles may open, each with a channel."""
    if transport.capabilities.in_file:
        return []
    if transport.capabilities.paid_wait is not None:
        return [_estimate_cost(settings, transport.capabilities.paid_wait)]
    most = len(settings.ingestion.error_queues) + _BESIDE_INGESTION
    return [f"a process opens up to {most} connections with a channel each"]


def _estimate_cost(settings: Settings, wait: float) -> str:
    """Say what a process costs that has nothing to do: it waits at each error queue, and looks."""
    queues = len(settings.ingestion.error_queues)
    requests = _MONTH * queues / wait + _MONTH * (queues + 1) / DEPTHS_WHERE_PAID
    price = requests / 1_000_000 * _PRICE
    return (
        f"a process with nothing to do sends some {requests:,.0f} requests a month, "
        f"about {price:.2f} USD at {_PRICE:.2f} USD for a million"
    )


_MONTH = 30 * 24 * 3600
_PRICE = 0.4
"""USD for a million requests: that of SQS in most regions in 2026."""


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


def _check_queues(settings: Settings, transport: Transport, queues: Queues) -> list[CheckResult]:
    names = settings.ingestion.error_queues
    return [_check_queue(settings, transport, queues, each) for each in names]


def _check_queue(
    settings: Settings, transport: Transport, queues: Queues, queue: ErrorQueue
) -> CheckResult:
    name = f"error queue {queue.queue}"
    match inspect(queues, make_mapping(settings, queue)):
        case Missing() if declares_missing(settings, transport):
            why_not = queues.why_not_declarable(queue.queue)
            made = "will be declared" if transport.capabilities.nobody_declares else _DECLARED
            text = why_not or f"missing: {made}"
            return CheckResult(name=name, ok=why_not is None, text=text)
        case Missing(reason=reason) | Unusable(reason=reason):
            return CheckResult(name=name, ok=False, text=reason.removeprefix(f"the {name} "))
        case Usable() as usable:
            told = _describe(queues, queue.queue, usable)
            return _with_key(
                CheckResult(name=name, ok=True, text="; ".join(told)), queues, queue.queue
            )


def _with_key(
    found: CheckResult, queues: Queues, queue: str, *, is_read: bool = True
) -> CheckResult:
    """Add what is known of the key with which a queue is encrypted."""
    if not found.ok or not isinstance(queues, KnowsKeys):
        return found
    try:
        told = queues.try_key(queue, is_read=is_read)
    except AccessRefused as error:
        return replace(found, ok=False, text=str(error))
    return found if told is None else replace(found, text=f"{found.text}; {told}")


def _describe(queues: Queues, queue: str, usable: Usable) -> Iterator[str]:
    yield f"ok, {_count_ready(usable.look.ready)}"
    limit = queues.delivery_limit(queue)
    if limit is not None:
        yield describe_limit(queues, queue, limit)
    if isinstance(queues, CountsReceives) and (told := queues.describe_retention(queue)):
        yield f"warning: {told}"
    if usable.doubt is not None:
        yield usable.doubt
    if usable.unseen:
        yield _UNSEEN


def _count_ready(number: int) -> str:
    return f"{count_messages(number)} ready"


def _check_log_queue(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether the log queue exists: Retrier never declares it, and copies wait without it."""
    if settings.ingestion.forward_to is not None:
        yield _check_existing("log queue", settings.ingestion.forward_to, "copy", queues)


def _check_notices(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether the queue for notices of dead messages exists: they wait without it."""
    policies = settings.policies
    if policies is not None and policies.notices is not None:
        yield _check_existing("queue for notices", policies.notices, "notice", queues)


def _check_heads(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether the queue for heads of the audit exists: Retrier never declares it."""
    to = None if settings.access is None else settings.access.audit.head_to
    if to is not None:
        yield _check_existing("queue for heads of the audit", to, "head", queues)


def _check_existing(name: str, queue: str, what: str, queues: Queues) -> CheckResult:
    ready = queues.depth(queue)
    wrong = queues.why_misnamed(queue) if isinstance(queues, KnowsNames) else None
    missing = wrong or f"declare it, or no {what} can be sent"
    text = f"does not exist: {missing}" if ready is None else f"ok, {_count_ready(ready)}"
    found = CheckResult(name=f"{name} {queue}", ok=ready is not None, text=text)
    return _with_key(found, queues, queue, is_read=False)


def _check_staging(settings: Settings, transport: Transport) -> Iterator[CheckResult]:
    trial = transport.try_out(settings.staging_queue)
    tried = "; ".join(["ok", *(f"not tried: {each}" for each in trial.untried)])
    yield CheckResult(
        name=f"staging queue {settings.staging_queue}",
        ok=not trial.problems,
        text="; ".join(trial.problems) or tried,
    )
    if trial.risks:
        text = f"warning: {_MAY_LOSE}: {'; '.join(trial.risks)}"
        yield CheckResult(name="broker", ok=True, text=text)


def _check_destinations(settings: Settings, queues: Queues) -> Iterator[CheckResult]:
    """Look whether each destination of the settings exists; declare none.

    One that is missing is a warning: `run` takes failures all the same, and the retries to it are
    reverted. Raises BrokerUnavailable.
    """
    queues_of = settings.ingestion.error_queues
    named = {each.destination for each in queues_of}
    named |= {queue for each in queues_of for queue in each.destinations.values()}
    for queue in sorted(each for each in named if each is not None):
        text = "ok"
        if queues.look(queue) is None:
            wrong = queues.why_misnamed(queue) if isinstance(queues, KnowsNames) else None
            text = _NO_DESTINATION if wrong is None else f"warning: retries to it fail: {wrong}"
        found = CheckResult(name=f"destination {queue}", ok=True, text=text)
        yield _with_key(found, queues, queue, is_read=False)


_NOT_CREATED = "without it the database would be a new file,"
_NEVER_ENDS = (
    "stream: strict waits for the confirmation of each retry. A consumer that confirms none lets "
    "its streams stand after their first message: set retries.presumed_after for those"
)
_OPEN_TO_OTHERS = "other users of this machine may read messages in files that were made before"
_RECOVERY = "a recovery, and nothing is presumed until it ends: `retrier recover --done`"
_UPGRADE_IS_OFF = "and database.upgrade is false: run `retrier db upgrade`"


def check(settings: Settings) -> tuple[CheckResult, ...]:
    """Connect to the database and the broker, and try what `run` needs; nothing of it stays."""
    return (
        _check_database(settings),
        *check_broker(settings),
        *_tell_promises(settings),
        *_check_files(settings),
        *_check_audit(settings),
        *_check_streams(settings),
        *_check_processes(settings),
    )


def upgrade_database(settings: Settings, *, may_create: bool = True) -> str:
    """Upgrade the schema to the newest revision; return a sentence.

    Unless `may_create`, an SQLite file has to be there. Raises DatabaseUnavailable, and
    ConfigurationError for a file that is missing.
    """
    db = open_database(settings)
    if db.is_sqlite and not may_create and not Path(db.place).exists():
        raise ConfigurationError([f"database.url: must be given: {_NOT_CREATED} {db.place}"])
    try:
        before = upgrade_schema(db)
    finally:
        db.dispose()
    if before.is_current:
        return f"the database at {db.place} is at revision {before.wanted} already"
    origin = before.current or "an empty schema"
    return f"the database at {db.place} was brought from {origin} to revision {before.wanted}"


def _check_streams(settings: Settings) -> Iterator[CheckResult]:
    """Warn of strict streams that only a confirmation lets go on: some consumers send none."""
    rules = () if settings.policies is None else settings.policies.rules
    strict = [rule.name for rule in rules if rule.stream is StreamRule.STRICT]
    if strict and settings.retries.presumed_after is None:
        text = f"warning: {', '.join(strict)}: {_NEVER_ENDS}"
        yield CheckResult(name="streams", ok=True, text=text)


def _check_processes(settings: Settings) -> Iterator[CheckResult]:
    """Warn if the processes that run differ, from each other or from these settings."""
    db = open_database(settings)
    try:
        if db.is_sqlite and not Path(db.place).exists():
            return
        running = list_processes(db) if find_revision(db).is_current else ()
    except (DatabaseUnavailable, ConfigurationError):
        return  # the check of the database says why
    finally:
        db.dispose()
    if running and (found := find_differences([*running, _as_process(settings)])):
        text = f"warning: {'; '.join(found)}"
        yield CheckResult(name="processes", ok=True, text=text)


def _as_process(settings: Settings) -> RunningProcess:
    """Return what a process with these settings would have in common with the others."""
    policies = settings.policies
    return RunningProcess(
        session_id="",
        instance=settings.instance,
        host="these settings",
        pid=0,
        roles=(),
        version=__version__,
        set_hash="" if policies is None else PolicySet(make_definition(policies)).hash,
        error_queues=tuple(sorted(each.queue for each in settings.ingestion.error_queues)),
    )


def _check_files(settings: Settings) -> Iterator[CheckResult]:
    """Warn of files with messages that others may read: Retrier makes none, and changes none."""
    db = open_database(settings)
    files = [Path(db.place)] if db.is_sqlite else []
    db.dispose()
    transport = make_transport(settings)
    if transport.capabilities.in_file:
        files.append(Path(transport.place))
    # Both may be in one folder.
    loose = dict.fromkeys(each for file in files for each in find_open_to_others(file))
    if loose:
        commands = "; ".join(f"chmod {'700' if each.is_dir() else '600'} {each}" for each in loose)
        yield CheckResult(name="files", ok=True, text=f"warning: {_OPEN_TO_OTHERS}: {commands}")


def _check_audit(settings: Settings) -> Iterator[CheckResult]:
    """Look whether the file of the audit can be written to: without it nobody acts."""
    file = "" if settings.access is None else settings.access.audit.file
    if not file:
        return
    path = Path(file).absolute()
    place = path if path.exists() else path.parent
    if not place.exists():
        why_not = "its folder is missing: make it"
    elif path.exists() and not path.is_file():
        why_not = "it is no file"
    else:
        why_not = "" if os.access(place, os.W_OK) else f"{place} may not be written to"
    text = f"{path}: {why_not or 'ok'}"
    yield CheckResult(name="audit", ok=not why_not, text=text)


def _check_database(settings: Settings) -> CheckResult:
    db = open_database(settings)
    if db.is_sqlite and not Path(db.place).exists():
        # Connecting would create an empty file, and so hide that a database was lost.
        return _check_missing_file(settings, Path(db.place))
    try:
        return _look_into_database(settings, db)
    except DatabaseUnavailable as error:
        out_of_reach = not isinstance(error, DatabaseRefused)
        return CheckResult(name="database", ok=False, text=str(error), out_of_reach=out_of_reach)
    finally:
        db.dispose()


def _check_missing_file(settings: Settings, file: Path) -> CheckResult:
    if settings.database.upgrade:
        return check_folder("database", file)
    return CheckResult(name="database", ok=False, text=f"missing at {file}, {_UPGRADE_IS_OFF}")


def _look_into_database(settings: Settings, db: Database) -> CheckResult:
    # The rights first: without them the revision may not be read, and that sounds like a failure.
    problems = find_missing_rights(db, upgrading=False)
    if problems:
        return CheckResult(name="database", ok=False, text="; ".join(problems))
    revision = find_revision(db)
    if revision.is_current:
        notes = "".join(
            [
                _describe_recovery(db),
                *_describe_words(settings, db),
                *_warn_of_session(db),
                *(f"; warning: {each}" for each in find_vacuum_warnings(db)),
            ]
        )
        text = f"ok, {db.place}, schema at revision {revision.current}{notes}"
        return CheckResult(name="database", ok=True, text=text)
    if not settings.database.upgrade:
        text = f"{db.place} {_describe_old(revision)}, {_UPGRADE_IS_OFF}"
        return CheckResult(name="database", ok=False, text=text)
    problems = find_missing_rights(db, upgrading=True)
    text = f"ok, {db.place} {_describe_old(revision)}; `retrier run` does that"
    return CheckResult(name="database", ok=not problems, text="; ".join(problems) or text)


def _describe_recovery(db: Database) -> str:
    found = get_recovery(db)
    if found is None:
        return ""
    return f"; warning: {found.begun_by} has begun {_RECOVERY}"


def _describe_words(settings: Settings, db: Database) -> Iterator[str]:
    """Say how far full text is, or that words are kept that nobody reads any more."""
    lag, is_on = get_lag(db), settings.search.text.enabled
    if lag is None:
        return
    left = lag.waiting + lag.backlog
    if is_on and left:
        yield f"; full text: the words of {count_messages(left)} are still to be read"
    elif not is_on:
        yield (
            "; full text is off (search.text.enabled): the words that were read before are kept, "
            "and are read on from there when it is on again"
        )


def _warn_of_session(db: Database) -> Iterator[str]:
    for warning in find_session_warnings(db):
        yield f"; warning: {warning}"
    if db.is_pooled() and not hears_requests(db):
        yield f"; warning: its notifications do not arrive: {WHY_UNHEARD}"


def _describe_old(revision: SchemaRevision) -> str:
    if revision.current is None:
        return f"is empty, and its tables have to be made (revision {revision.wanted})"
    return f"is at revision {revision.current}, and has to be upgraded to {revision.wanted}"
