"""Who is logged in with a browser (`browser_sessions`), and log-ins under way (`login_attempts`)."""

from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, update

from retrier.domain.access import Access, AccessRole, How, hash_secret
from retrier.domain.oidc import Person
from retrier.domain.values import dataclass
from retrier.store import event_log
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import browser_sessions, login_attempts

sessions = browser_sessions.c
attempts = login_attempts.c

LONGEST_SESSION = timedelta(hours=12)
LONGEST_IDLENESS = timedelta(hours=1)
LONGEST_LOGIN = timedelta(minutes=10)
"""Between the way to the provider and the way back."""
_NOTED_EVERY = timedelta(minutes=1)
"""How exactly it is kept when a session was used last: not each request writes."""


OF_TOKEN = "token:"  # noqa: S105 - a beginning, not a token
"""How the subject begins of who logged in with a token; its hash follows. Providers are addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """What a log-in needs when it comes back from the provider."""

    nonce: str
    verifier: str
    back: str


@writing
def begin_session(tx: Transaction, secret: str, person: Person, replaces: str | None) -> None:
    """Begin a session under a new secret; the one that the browser had before ends.

    Raises DatabaseUnavailable.
    """
    _sweep(tx)
    if replaces is not None:
        tx.execute(delete(browser_sessions).where(sessions.sha256 == hash_secret(replaces)))
    values: dict[str, object] = {
        "sha256": hash_secret(secret),
        "name": person.name,
        "subject": person.subject,
        "role": person.role,
        "created_at": tx.now,
        "seen_at": tx.now,
    }
    if person.queues is not None:
        values["queues"] = list(person.queues)
    tx.execute(insert(browser_sessions).values(**values))
    text = f"{person.name} logged in: role {person.role}"
    event_log.append(tx, [Entry(kind="logged_in", text=text, who=person.name)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who has a session. `token` is the hash of the token with which it began, if it did.

    `use_is_due` says that its use was not noted within the last minute: `note_use`.
    """

    access: Access
    use_is_due: bool
    token: str | None = None


@reading
def find_session(tx: Transaction, sha256: str) -> Session | None:
    """Return who has this session; None if it is over.

    Raises DatabaseUnavailable.
    """
    row = tx.execute(select(browser_sessions).where(sessions.sha256 == sha256)).one_or_none()
    if row is None or _is_over(tx.now, row.created_at, row.seen_at):
        return None
    access = Access(
        name=row.name,
        subject=row.subject,
        how=How.OIDC,
        role=AccessRole(row.role),
        queues=None if row.queues is None else tuple(row.queues),
        session=sha256,
    )
    began_with = row.subject.removeprefix(OF_TOKEN)
    return Session(
        access=access,
        use_is_due=row.seen_at < tx.now - _NOTED_EVERY,
        token=None if began_with == row.subject else began_with,
    )


@writing
def note_use(tx: Transaction, sha256: str) -> None:
    """Note that a session is used now. Raises DatabaseUnavailable."""
    tx.execute(update(browser_sessions).where(sessions.sha256 == sha256).values(seen_at=tx.now))


@writing
def end_session(tx: Transaction, sha256: str, *, everywhere: bool) -> None:
    """End a session, or all sessions of its person. Raises DatabaseUnavailable."""
    row = tx.execute(select(browser_sessions).where(sessions.sha256 == sha256)).one_or_none()
    if row is None:
        return
    which = sessions.subject == row.subject if everywhere else sessions.sha256 == sha256
    ended = tx.execute(delete(browser_sessions).where(which)).rowcount
    text = f"{row.name} logged out" + (f" everywhere: {ended} sessions" if everywhere else "")
    event_log.append(tx, [Entry(kind="logged_out", text=text, who=row.name)])


@writing
def begin_login(tx: Transaction, state: str, attempt: LoginAttempt) -> None:
    """Keep what a log-in needs when it comes back. Raises DatabaseUnavailable."""
    _sweep(tx)
    tx.execute(
        insert(login_attempts).values(
            sha256=hash_secret(state),
            nonce=attempt.nonce,
            verifier=attempt.verifier,
            back=attempt.back,
            created_at=tx.now,
        )
    )


@writing
def take_login(tx: Transaction, state: str) -> LoginAttempt | None:
    """Return what was kept under a state, once; None if there is nothing, or it took too long.

    Raises DatabaseUnavailable.
    """
    taken = delete(login_attempts).where(attempts.sha256 == hash_secret(state))
    row = tx.execute(taken.returning(login_attempts)).one_or_none()
    if row is None or row.created_at < tx.now - LONGEST_LOGIN:
        return None
    return LoginAttempt(nonce=row.nonce, verifier=row.verifier, back=row.back)


def _is_over(now: datetime, created_at: datetime, seen_at: datetime) -> bool:
    return created_at < now - LONGEST_SESSION or seen_at < now - LONGEST_IDLENESS


def _sweep(tx: Transaction) -> None:
    """Delete what is over: here, as it is rarely done, and before more is added."""
    now = tx.now
    over = (sessions.created_at < now - LONGEST_SESSION) | (
        sessions.seen_at < now - LONGEST_IDLENESS
    )
    tx.execute(delete(browser_sessions).where(over))
    tx.execute(delete(login_attempts).where(attempts.created_at < now - LONGEST_LOGIN))
