"""Tokens by command: they use the database of the settings, and need no service."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from secrets import token_bytes
from typing import Any

from retrier.app.parts import open_database
from retrier.clock import SystemClock
from retrier.domain.access import (
    AccessRole,
    AccessToken,
    QueuePatterns,
    hash_secret,
    is_pattern,
    is_token_name,
    make_token,
)
from retrier.errors import ConfigurationError
from retrier.events.event import ignore
from retrier.guard import Guard
from retrier.settings import Settings
from retrier.store.tokens import TokenRefusal, list_tokens
from retrier.tokens import Tokens


@contextmanager
def _tokens(settings: Settings) -> Iterator[Tokens]:
    db = open_database(settings)
    try:
        access = settings.access
        given = () if access is None else (each.name for each in access.tokens)
        yield Tokens(db, ignore, Guard(db), frozenset(given))
    finally:
        db.dispose()


def create_token(
    settings: Settings,
    name: str,
    role: AccessRole,
    queues: QueuePatterns | None,
    lasts: timedelta | None,
    who: str,
) -> dict[str, Any]:
    """Make a token and return it, this once. Raises ConfigurationError, DatabaseUnavailable."""
    with _tokens(settings) as tokens:
        made = tokens.create(name, role, queues, lasts, who)
    if isinstance(made, TokenRefusal):
        raise ConfigurationError([f"{_OPTIONS.get(made, '--name')}: {made}"])
    return {"name": name, "token": made}


_OPTIONS = {TokenRefusal.NO_QUEUE: "--queues"}


def write_token(
    name: str, role: AccessRole, queues: QueuePatterns | None, lasts: timedelta | None
) -> dict[str, Any]:
    """Make a token for the settings, and what stands there of it. Raises ConfigurationError."""
    if not is_token_name(name):
        raise ConfigurationError([f"--name: {TokenRefusal.NO_NAME}"])
    if queues is not None and not all(map(is_pattern, queues)):
        raise ConfigurationError([f"--queues: {TokenRefusal.NO_QUEUE}"])
    secret = make_token(token_bytes)
    entry: dict[str, Any] = {"name": name, "role": role.value, "sha256": hash_secret(secret)}
    if queues is not None:
        entry["queues"] = list(queues)
    if lasts is not None:
        entry["expires"] = (SystemClock().now() + lasts).isoformat(timespec="seconds")
    # JSON is YAML, too, and quotes what has to be quoted.
    return {"name": name, "token": secret, "entry": f"- {json.dumps(entry)}"}


def revoke_token(settings: Settings, name: str, who: str) -> str | None:
    """Revoke a token; return why not, or None. Raises DatabaseUnavailable."""
    with _tokens(settings) as tokens:
        return tokens.revoke(name, who)


def find_tokens(settings: Settings) -> list[dict[str, Any]]:
    """Return the tokens of database and settings. Raises DatabaseUnavailable."""
    with _tokens(settings) as tokens:
        stored = list_tokens(tokens.db)
        now = tokens.db.read(lambda tx: tx.now)
    found = [
        _shown(
            each.token, "revoked" if each.revoked_at else _state(each.token, now), each.created_by
        )
        for each in stored
    ]
    of_settings = () if settings.access is None else settings.access.rules.tokens
    return [*found, *(_shown(each, _state(each, now), "the settings") for each in of_settings)]


def _state(token: AccessToken, now: datetime) -> str:
    return "good" if token.holds(now) else "has run out"


def _shown(token: AccessToken, state: str, by: str) -> dict[str, Any]:
    return {
        "name": token.name,
        "role": token.role.value,
        "queues": None if token.queues is None else list(token.queues),
        "expires_at": None if token.expires is None else token.expires.isoformat(),
        "created_by": by,
        "state": state,
    }
