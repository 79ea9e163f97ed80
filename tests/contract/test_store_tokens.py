"""Tokens and sessions in the database, on both."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from retrier.domain.access import AccessRole, AccessToken, hash_secret
from retrier.store.engine.database import Database
from retrier.store.schema import browser_sessions, login_attempts
from retrier.store.sessions import (
    LoginAttempt,
    Person,
    begin_login,
    begin_session,
    end_session,
    find_session,
    note_use,
    take_login,
)
from retrier.store.tokens import TokenRefusal, create_token, find_token, list_tokens, revoke_token

HASH = hash_secret("rtr_secret")
TOKEN = AccessToken(name="ci", sha256=HASH, role=AccessRole.OPERATOR, queues=("orders*",))
ADA = Person(subject="0815", name="ada@shop.example", role=AccessRole.ADMIN)
ATTEMPT = LoginAttempt(nonce="n", verifier="v", back="/groups")


def test_a_token_is_found_by_its_hash(database: Database) -> None:
    assert create_token(database, TOKEN, None, "ada") is None

    assert find_token(database, HASH) == TOKEN
    assert find_token(database, hash_secret("another")) is None


def test_a_name_is_given_once_also_after_it_was_revoked(database: Database) -> None:
    create_token(database, TOKEN, None, "ada")
    revoke_token(database, "ci", "ada")
    again = AccessToken(name="ci", sha256=hash_secret("x"), role=AccessRole.READER)

    assert create_token(database, again, None, "ada") is TokenRefusal.TAKEN


def test_a_revoked_token_lets_nobody_in(database: Database) -> None:
    create_token(database, TOKEN, None, "ada")

    assert revoke_token(database, "ci", "bob") is None
    assert find_token(database, HASH) is None
    (listed,) = list_tokens(database)
    assert (listed.created_by, listed.revoked_by) == ("ada", "bob")
    assert revoke_token(database, "ci", "bob") is TokenRefusal.REVOKED
    assert revoke_token(database, "other", "bob") is TokenRefusal.UNKNOWN


def test_a_token_runs_out_by_the_clock_of_the_database(database: Database) -> None:
    create_token(database, TOKEN, timedelta(microseconds=1), "ada")

    assert find_token(database, HASH) is None


def test_a_session_is_found_by_the_hash_of_its_secret(database: Database) -> None:
    begin_session(database, "secret", ADA, None)

    found = find_session(database, hash_secret("secret"))

    assert found is not None
    access = found.access
    assert (access.name, access.subject, access.role) == (ADA.name, ADA.subject, ADA.role)
    assert access.queues is None
    assert find_session(database, "secret") is None


def test_a_log_in_ends_the_session_that_the_browser_had(database: Database) -> None:
    begin_session(database, "before", ADA, None)
    begin_session(database, "after", ADA, "before")

    assert find_session(database, hash_secret("before")) is None
    assert find_session(database, hash_secret("after")) is not None


@pytest.mark.parametrize(
    ("column", "age"), [("created_at", timedelta(hours=13)), ("seen_at", timedelta(minutes=61))]
)
def test_a_session_is_over(database: Database, column: str, age: timedelta) -> None:
    begin_session(database, "secret", ADA, None)
    now = database.read(lambda tx: tx.now)
    database.transact(lambda tx: tx.execute(update(browser_sessions).values({column: now - age})))

    assert find_session(database, hash_secret("secret")) is None


def test_use_keeps_a_session_alive(database: Database) -> None:
    begin_session(database, "secret", ADA, None)
    now = database.read(lambda tx: tx.now)
    old = now - timedelta(minutes=50)
    database.transact(lambda tx: tx.execute(update(browser_sessions).values(seen_at=old)))

    note_use(database, hash_secret("secret"))

    assert find_session(database, hash_secret("secret")) is not None
    seen = select(browser_sessions.c.seen_at)
    assert database.read(lambda tx: tx.execute(seen).scalar_one()) >= now


@pytest.mark.parametrize(("minutes", "is_due"), [(0, False), (2, True)])
def test_use_is_noted_once_a_minute(database: Database, minutes: int, is_due: bool) -> None:  # noqa: FBT001 - a case
    begin_session(database, "secret", ADA, None)
    seen = database.read(lambda tx: tx.now) - timedelta(minutes=minutes)
    database.transact(lambda tx: tx.execute(update(browser_sessions).values(seen_at=seen)))

    found = find_session(database, hash_secret("secret"))

    assert found is not None
    assert found.use_is_due == is_due


@pytest.mark.parametrize(("everywhere", "left"), [(False, 1), (True, 0)])
def test_who_logs_out_is_out_here_or_everywhere(
    database: Database,
    everywhere: bool,  # noqa: FBT001 - a case
    left: int,
) -> None:
    begin_session(database, "here", ADA, None)
    begin_session(database, "there", ADA, None)

    end_session(database, hash_secret("here"), everywhere=everywhere)

    assert find_session(database, hash_secret("here")) is None
    assert (find_session(database, hash_secret("there")) is not None) == bool(left)


def test_a_log_in_under_way_is_taken_once(database: Database) -> None:
    begin_login(database, "state", ATTEMPT)

    assert take_login(database, "state") == ATTEMPT
    assert take_login(database, "state") is None
    assert take_login(database, "another") is None


def test_a_log_in_that_took_too_long_is_not_taken(database: Database) -> None:
    begin_login(database, "state", ATTEMPT)
    old = database.read(lambda tx: tx.now) - timedelta(minutes=11)
    database.transact(lambda tx: tx.execute(update(login_attempts).values(created_at=old)))

    assert take_login(database, "state") is None
