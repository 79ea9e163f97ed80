"""Finds out who asks, once for each request of both faces; and refuses who shows nothing.

A token, a session of a browser, or a proxy that has logged somebody in. Without rules nothing is
asked, and whoever reaches the address may do everything.
"""

import hmac
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import Protocol

import anyio
from anyio import CapacityLimiter, to_thread
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from retrier.audit import Audit
from retrier.clock import Clock, SystemClock
from retrier.domain.access import (
    OPEN,
    Access,
    AccessRules,
    AccessToken,
    How,
    Right,
    hash_secret,
    is_token,
    role_of,
)
from retrier.errors import DatabaseUnavailable, NotAllowed
from retrier.http.rights import act_of, right_of
from retrier.store.engine.database import Database
from retrier.store.sessions import end_session, find_session, note_use
from retrier.store.tokens import find_token

PEER = "retrier.peer"
"""The member of a scope with the address that the connection came from, whoever its client was."""

SESSION_COOKIE = "retrier_session"
SECURE_COOKIE = "__Host-retrier_session"
"""The same behind TLS: browsers take a name that begins so from this very host only."""

_TAKEN_FOR = 0.5
"""Seconds for which a token or a session is taken as it was: what is revoked ends within a second."""
_MOST_KEPT = 1000
_GUESSES = 10
"""Wrong tokens and sessions of one address that are answered in a second."""
_MOST_ADDRESSES = 10_000

ASKED = {"WWW-Authenticate": 'Bearer realm="Retrier"'}
NOBODY_THERE = "Who asks? Send a token as `Authorization: Bearer`, or log in on the page."
NOT_KNOWN = "This token is not known here: it is mistyped, revoked, or it has run out."
TOO_MANY = "Too many wrong tokens came from this address."
_OVER = "This session is over: log in again."
NO_ROLE = "No role is given to you here, so that you may do nothing."


def cookie_of(request: Request) -> str:
    """Return the name of the cookie that holds the session of a browser."""
    return SECURE_COOKIE if request.url.scheme == "https" else SESSION_COOKIE


class Refused(Exception):
    """Whoever it is, they are not let in; the words say why, for people."""


class BearerReader(Protocol):
    """Reads bearer tokens of a provider."""

    def read(self, token: str) -> Access:
        """Return who it is. Raises Refused."""
        ...


class Guesses:
    """Counts what was refused, by address: whoever guesses is not answered for ever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = 0
        self._counts: dict[str, int] = {}
        # Of who used up the second before this one: how many were let through in this second.
        self._places: dict[str, int] = {}
        self._lock = Lock()

    def are_too_many(self, address: str) -> bool:
        """Say whether an address has used up this second."""
        with self._lock:
            self._turn()
            return self._counts.get(address, 0) >= _GUESSES

    def were_too_many_lately(self, address: str) -> bool:
        """Say whether an address has used up this second or the one before."""
        with self._lock:
            self._turn()
            return address in self._places or self._counts.get(address, 0) >= _GUESSES

    def take_place(self, address: str) -> bool:
        """Say whether one more request of an address may be looked at, and count it.

        A refusal is counted only when it is found: until the first ones are, whoever goes on guessing
        on many connections would be looked at on all of them.
        """
        with self._lock:
            self._turn()
            seen = self._places.get(address, 0)
            if max(seen, self._counts.get(address, 0)) >= _GUESSES:
                return False
            if address in self._places:
                self._places[address] = seen + 1
            return True

    def add(self, address: str) -> None:
        """Count one."""
        with self._lock:
            self._turn()
            if address in self._counts or len(self._counts) < _MOST_ADDRESSES:
                self._counts[address] = self._counts.get(address, 0) + 1

    def _turn(self) -> None:
        second = int(self._clock.monotonic())
        if second != self._second:
            counts = self._counts if second == self._second + 1 else {}
            self._places = {each: 0 for each, many in counts.items() if many >= _GUESSES}
            self._second, self._counts = second, {}


@dataclass(slots=True)
class _Recent:
    """What was found lately, by the hash of the secret."""

    clock: Clock
    known: OrderedDict[str, tuple[float, Access]] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def find(self, sha256: str) -> Access | None:
        with self.lock:
            at, access = self.known.get(sha256, (0.0, None))
            return access if self.clock.monotonic() - at < _TAKEN_FOR else None

    def keep(self, sha256: str, access: Access) -> None:
        with self.lock:
            self.known[sha256] = (self.clock.monotonic(), access)
            if len(self.known) > _MOST_KEPT:
                self.known.popitem(last=False)

    def forget(self, sha256: str) -> None:
        with self.lock:
            self.known.pop(sha256, None)


class Gate:
    """Finds out who asks. Without rules it lets everybody in, and costs nothing."""

    def __init__(
        self,
        db: Database | None = None,
        rules: AccessRules | None = None,
        *,
        bearer: BearerReader | None = None,
        seal: str = "",
        audit: Audit | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._db = db
        self.rules = rules
        self._bearer = bearer
        self._seal = seal
        self._audit = audit
        self._clock = clock or SystemClock()
        self._guesses = Guesses(self._clock)
        self._tokens = _Recent(self._clock)
        self._sessions = _Recent(self._clock)
        # Of its own: a provider that does not answer must not take the threads of everybody.
        self._readers = CapacityLimiter(_READERS)

    async def find(self, request: Request) -> Access:
        """Return who asks. Raises HTTPException: 401 for nobody, 429 for who guesses."""
        if self.rules is None:
            return OPEN
        address = _address_of(request)
        return await self._let_in(address, self._find(request, address, self.rules), self.rules)

    async def find_token(self, request: Request, token: str) -> Access:
        """Return whose token it is that a person has typed. Raises HTTPException as `find` does."""
        if self.rules is None or not is_token(token):
            # What is mistyped tells nobody anything, and is not counted.
            raise HTTPException(401, NOT_KNOWN, ASKED)
        address = _address_of(request)
        self._refuse_guesser(address)
        return await self._let_in(address, self._of_bearer(token, address, self.rules), self.rules)

    async def _let_in(self, address: str, finding: Awaitable[Access], rules: AccessRules) -> Access:
        try:
            found = await finding
        except Refused as refusal:
            self._guesses.add(address)
            self._count(address, str(refusal))
            if self._guesses.are_too_many(address):
                raise too_many() from None
            raise HTTPException(401, str(refusal), ASKED) from None
        except NotAllowed as refusal:
            self._count(address, str(refusal))
            raise
        except HTTPException as refusal:
            if refusal.status_code != HTTPStatus.UNAUTHORIZED:
                self._count(address, refusal.detail)
            raise
        return replace(found, address=address, reads_own_only=rules.reads_own_only)

    async def is_over(self, request: Request) -> bool:
        """Say whether who was let in no longer is. That something stays open is no use of a session.

        What cannot be found out now is found out the next time.
        """
        if self.rules is None:
            return False
        try:
            await self._find(request, _address_of(request), self.rules, notes_use=False)
        except Refused:
            return True
        except HTTPException as refusal:
            return refusal.status_code in (401, 403)
        except DatabaseUnavailable:
            return False
        return False

    def refuse(self, access: Access, why_not: str, act: str) -> None:
        """Keep that somebody who is known was refused."""
        if self._audit is not None:
            self._audit.refuse(access, act, why_not)

    def note(self, access: Access, act: str) -> None:
        """Keep what somebody has done that is no act of the gateway, such as a log-in."""
        if self._audit is not None:
            self._audit.note(access, act)

    def _count(self, address: str, reason: str) -> None:
        if self._audit is not None:
            self._audit.count(address, reason)

    def turns_away(self, address: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Say whether an address has guessed too often to be looked at any closer, and count it.

        Who shows a token that is known is let through, whoever else guesses behind their address.
        """
        if self.rules is None or not self._guesses.were_too_many_lately(address):
            return False
        shown = [value for name, value in headers if name in _SECRETS]
        if not shown or any(self._is_known(value, self.rules) for value in shown):
            return False
        if self._guesses.take_place(address):
            return False
        self._guesses.add(address)
        self._count(address, TOO_MANY)
        return True

    def _is_known(self, shown: bytes, rules: AccessRules) -> bool:
        secrets = _SPLIT.split(shown.decode("latin-1"))
        shown_last = secrets[-_MOST_SHOWN:]
        hashes = {hash_secret(each) for each in shown_last}
        return (
            any(each.sha256 in hashes for each in rules.tokens)
            or any(self._tokens.find(each) is not None for each in hashes)
            or any(self._sessions.find(hash_secret(self.seal(each))) for each in shown_last)
        )

    def seal(self, secret: str) -> str:
        """Return what stands for the secret of a session: under other rules it is another one.

        So nobody keeps a role that the settings no longer give.
        """
        return f"{secret}.{self._seal}" if self._seal else secret

    async def log_out(self, request: Request, *, everywhere: bool) -> None:
        """End the session of a browser, or all of its person. Raises DatabaseUnavailable."""
        secret = request.cookies.get(cookie_of(request))
        if secret and self._db is not None:
            sha256 = hash_secret(self.seal(secret))
            await to_thread.run_sync(partial(end_session, everywhere=everywhere), self._db, sha256)
            self._sessions.forget(sha256)

    async def _find(
        self, request: Request, address: str, rules: AccessRules, *, notes_use: bool = True
    ) -> Access:
        named = request.headers.getlist("authorization")
        if named:
            scheme, _, token = named[0].partition(" ")
            if len(named) > 1 or scheme.lower() != "bearer":
                raise Refused("What is sent as Authorization is one Bearer token.")
            return await self._of_bearer(token.strip(), address, rules)
        session = request.cookies.get(cookie_of(request))
        if session:
            look = partial(self._find_session, notes_use=notes_use)
            sha256 = hash_secret(self.seal(session))
            return await self._look_up(sha256, address, look, self._sessions)
        by_proxy = _of_proxy(request, rules)
        if by_proxy is not None:
            return by_proxy
        # Nobody guesses without a secret: it is a browser that has to log in first.
        raise HTTPException(401, NOBODY_THERE, ASKED)

    async def _of_bearer(self, token: str, address: str, rules: AccessRules) -> Access:
        if not is_token(token):
            if self._bearer is None or token.count(".") != _DOTS:
                raise Refused(NOT_KNOWN)
            self._refuse_guesser(address)
            return await to_thread.run_sync(self._bearer.read, token, limiter=self._readers)
        sha256 = hash_secret(token)
        listed = self._find_listed(sha256, rules)
        if listed is not None:
            return listed
        return await self._look_up(sha256, address, self._find_token, self._tokens)

    def _find_listed(self, sha256: str, rules: AccessRules) -> Access | None:
        """Return whose token of the settings it is. Raises Refused for one that has run out."""
        known = [each for each in rules.tokens if hmac.compare_digest(each.sha256, sha256)]
        if known and not known[0].holds(self._clock.now()):
            raise Refused(NOT_KNOWN)
        return _as_access(known[0]) if known else None

    async def _look_up(
        self,
        sha256: str,
        address: str,
        look: Callable[[Database, str], Access],
        lately: _Recent,
    ) -> Access:
        recent = lately.find(sha256)
        if recent is not None:
            return recent
        self._refuse_guesser(address)
        if self._db is None:
            raise Refused(NOT_KNOWN)
        found = await to_thread.run_sync(look, self._db, sha256)
        lately.keep(sha256, found)
        return found

    def _refuse_guesser(self, address: str) -> None:
        """Raise HTTPException for who has guessed too often, before anything costly is done."""
        if self._guesses.are_too_many(address):
            raise too_many()

    @staticmethod
    def _find_token(db: Database, sha256: str) -> Access:
        found = find_token(db, sha256)
        if found is None:
            raise Refused(NOT_KNOWN)
        return _as_access(found)

    def _find_session(self, db: Database, sha256: str, *, notes_use: bool) -> Access:
        found = find_session(db, sha256)
        if found is None:
            raise Refused(_OVER)
        if notes_use and found.use_is_due:
            note_use(db, sha256)
        if found.token is None:
            return found.access
        # Of a session that began with a token, only the token says what it may, and whether at all.
        listed = self._find_listed(found.token, self.rules or AccessRules())
        token = listed or self._find_token(db, found.token)
        return replace(token, session=sha256)


Wait = Callable[[float], Awaitable[object]]


class GuessLimit:
    """Answers who guesses too often before anything else is done: it costs a hundredth of a request.

    They wait a second for the answer, so that each of their connections guesses once a second.
    """

    def __init__(self, app: ASGIApp, gate: Gate, wait: Wait = anyio.sleep) -> None:
        self._app = app
        self._gate = gate
        self._wait = wait
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, or refuse it."""
        client = scope.get("client")
        address = client[0] if client else ""
        if scope["type"] == "http" and self._gate.turns_away(address, scope["headers"]):
            await self._hold_up()
            await send({"type": "http.response.start", "status": 429, "headers": _TURNED_AWAY})
            await send({"type": "http.response.body", "body": _BODY})
            return
        await self._app(scope, receive, send)

    async def _hold_up(self) -> None:
        if self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1
        try:
            await self._wait(_HELD_UP)
        finally:
            self._waiting -= 1


_HELD_UP = 1.0
_MOST_WAITING = 1000
"""Answers that wait at a time: each holds a connection."""

_SECRETS = frozenset({b"authorization", b"cookie"})
_SPLIT = re.compile(r"[ ;=]+")
_MOST_SHOWN = 20
"""Words of a header that may be a token or a session."""

_BODY = json.dumps(
    {"type": "about:blank", "title": "Too Many Requests", "status": 429, "detail": TOO_MANY}
).encode()
_TURNED_AWAY = [
    (b"content-type", b"application/problem+json"),
    (b"content-length", str(len(_BODY)).encode()),
    (b"retry-after", b"1"),
]


_DOTS = 2
"""In a JWT."""
_READERS = 4
"""Tokens of a provider that are read at once."""


def _address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def too_many() -> HTTPException:
    """Return the refusal of an address that has guessed too often."""
    return HTTPException(429, TOO_MANY, {"Retry-After": "1"})


def _as_access(token: AccessToken) -> Access:
    return Access(name=token.name, how=How.TOKEN, role=token.role, queues=token.queues)


def _of_proxy(request: Request, rules: AccessRules) -> Access | None:
    """Return whom a proxy of the rules names; None if the request does not come through one."""
    proxy = rules.proxy
    if proxy is None or not proxy.proxies.include(request.scope.get(PEER, "")):
        return None
    users = [_as_utf8(each) for each in request.headers.getlist(proxy.user_header)]
    told = [_as_utf8(each) for each in request.headers.getlist(proxy.groups_header)]
    # Of two headers one may be the client's own, which the proxy has let through.
    if len(users) != 1 or not users[0].strip() or len(told) > 1:
        return None
    groups = (each.strip() for each in told[0].split(",")) if told else ()
    role = role_of(groups, proxy.roles)
    if role is None:
        raise NotAllowed(f"{NO_ROLE} None of your groups has one: {proxy.groups_header}.")
    return Access(name=users[0].strip()[:_LONGEST_NAME], how=How.PROXY, role=role)


_LONGEST_NAME = 200


def _as_utf8(header: str) -> str:
    """Return a header as its sender wrote it: its bytes come as Latin-1, but most are UTF-8."""
    return header.encode("latin-1", "replace").decode("utf-8", "replace")


async def find_access(request: Request) -> Access:
    """Return who asks, if the role is enough for this route.

    Raises HTTPException: 401, 403 and 429.
    """
    gate: Gate = request.app.state.parts.gate
    access = await gate.find(request)
    request.state.access = access
    why_not = access.why_not(right_of(request))
    if why_not is not None:
        # In a thread: a disk that is slow must not hold up everybody else.
        await to_thread.run_sync(gate.refuse, access, why_not, act_of(request))
        raise NotAllowed(why_not)
    return access


async def is_known(request: Request) -> bool:
    """Say whether somebody asks who may read, where everybody is answered something."""
    gate: Gate = request.app.state.parts.gate
    try:
        access = await gate.find(request)
    except (HTTPException, NotAllowed):
        return False
    # It tells of all queues.
    return access.may(Right.READ) and access.seen is None
