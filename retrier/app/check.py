"""`retrier check` and `retrier db upgrade`: both work while no service is running."""

from collections.abc import Iterator
from pathlib import Path

from retrier import __version__
from retrier.app.broker_check import check_broker
from retrier.app.check_result import CheckResult, check_folder
from retrier.app.parts import make_transport, open_database
from retrier.domain.processes import RunningProcess, find_differences
from retrier.domain.streams import StreamRule
from retrier.errors import ConfigurationError, DatabaseRefused, DatabaseUnavailable
from retrier.policy.policy_set import PolicySet
from retrier.private_files import find_open_to_others
from retrier.settings import Settings, make_definition
from retrier.store.engine.database import Database
from retrier.store.engine.requests import WHY_UNHEARD, hears_requests
from retrier.store.queries.processes import list_processes
from retrier.store.queries.recovery import get_recovery
from retrier.store.queries.sessions import find_session_warnings
from retrier.store.verbs.trial import find_missing_rights
from retrier.store.verbs.upgrade import SchemaRevision, find_revision, upgrade_schema

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
        *_check_files(settings),
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
    if settings.broker.is_embedded:
        files.append(Path(make_transport(settings).place))
    # Both may be in one folder.
    loose = dict.fromkeys(each for file in files for each in find_open_to_others(file))
    if loose:
        commands = "; ".join(f"chmod {'700' if each.is_dir() else '600'} {each}" for each in loose)
        yield CheckResult(name="files", ok=True, text=f"warning: {_OPEN_TO_OTHERS}: {commands}")


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
        notes = "".join([_describe_recovery(db), *_warn_of_session(db)])
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


def _warn_of_session(db: Database) -> Iterator[str]:
    for warning in find_session_warnings(db):
        yield f"; warning: {warning}"
    if db.is_pooled() and not hears_requests(db):
        yield f"; warning: its notifications do not arrive: {WHY_UNHEARD}"


def _describe_old(revision: SchemaRevision) -> str:
    if revision.current is None:
        return f"is empty, and its tables have to be made (revision {revision.wanted})"
    return f"is at revision {revision.current}, and has to be upgraded to {revision.wanted}"
