"""Tokens of programs (`access_tokens`): made, found by their hash, revoked."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, select, update

from retrier.domain.access import NO_PATTERN, NO_TOKEN_NAME, AccessRole, AccessToken
from retrier.domain.values import dataclass
from retrier.store import event_log
from retrier.store.engine.database import reading, writing
from retrier.store.engine.sql_dialect import by_code_point
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import access_tokens

columns = access_tokens.c


class TokenRefusal(StrEnum):
    """Why a token is not made or revoked."""

    TAKEN = "there is, or was, a token of this name: names are not given twice"
    OF_SETTINGS = "it is a token of the settings: give and take it there, under access.tokens"
    NO_NAME = NO_TOKEN_NAME
    NO_QUEUE = NO_PATTERN
    NO_ACCESS = (
        "nobody is asked for a token here. Make it with the section `access` in the settings: else "
        "whoever reaches this address now could keep a way in for later"
    )
    UNKNOWN = "no token has this name"
    REVOKED = "it is revoked already"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A token with who made it, and who revoked it."""

    token: AccessToken
    created_at: datetime
    created_by: str
    revoked_at: datetime | None = None
    revoked_by: str | None = None


@reading
def find_token(tx: Transaction, sha256: str) -> AccessToken | None:
    """Return the token with this hash that is not revoked and has not run out by the database's clock.

    Raises DatabaseUnavailable.
    """
    query = select(access_tokens).where(columns.sha256 == sha256, columns.revoked_at.is_(None))
    row = tx.execute(query).one_or_none()
    found = None if row is None else _from_row(row).token
    return found if found is not None and found.holds(tx.now) else None


@reading
def list_tokens(tx: Transaction) -> Sequence[StoredToken]:
    """Return all tokens by name, also those that are revoked. Raises DatabaseUnavailable."""
    query = select(access_tokens).order_by(by_code_point(columns.name))
    return [_from_row(row) for row in tx.execute(query)]


@writing
def create_token(
    tx: Transaction, token: AccessToken, lasts: timedelta | None, who: str
) -> TokenRefusal | None:
    """Keep a new token that lasts so long, None for ever; return why not, or None.

    Raises DatabaseUnavailable.
    """
    values: dict[str, object] = {
        "name": token.name,
        "sha256": token.sha256,
        "role": token.role,
        "expires_at": None if lasts is None else tx.now + lasts,
        "created_at": tx.now,
        "created_by": who,
    }
    if token.queues is not None:
        values["queues"] = list(token.queues)
    insert = tx.sql.insert(access_tokens).values(**values)
    # Two requests at the same time leave one row, and one of them is told.
    made = insert.on_conflict_do_nothing(index_elements=["name"]).returning(columns.name)
    if tx.execute(made).first() is None:
        return TokenRefusal.TAKEN
    queues = "all queues" if token.queues is None else ", ".join(token.queues)
    text = f"the token {token.name}: role {token.role}, {queues}"
    event_log.append(tx, [Entry(kind="token_created", text=text, who=who)])
    return None


@writing
def revoke_token(tx: Transaction, name: str, who: str) -> TokenRefusal | None:
    """Revoke a token: nobody is let in with it any more. Return why not, or None.

    Raises DatabaseUnavailable.
    """
    standing = update(access_tokens).where(columns.name == name, columns.revoked_at.is_(None))
    if tx.execute(standing.values(revoked_at=tx.now, revoked_by=who)).rowcount:
        entry = Entry(kind="token_revoked", text=f"the token {name}", who=who)
        event_log.append(tx, [entry])
        return None
    known = tx.execute(select(columns.name).where(columns.name == name)).first()
    return TokenRefusal.UNKNOWN if known is None else TokenRefusal.REVOKED


def _from_row(row: Row[Any]) -> StoredToken:
    return StoredToken(
        token=AccessToken(
            name=row.name,
            sha256=row.sha256,
            role=AccessRole(row.role),
            queues=None if row.queues is None else tuple(row.queues),
            expires=row.expires_at,
        ),
        created_at=row.created_at,
        created_by=row.created_by,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by,
    )
