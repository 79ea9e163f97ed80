"""Finds out who asks, once for each request of both faces; and refuses who shows nothing.

A token, a session of a browser, or a proxy that has logged somebody in. Without rules nothing is
asked, and whoever reaches the address may do everything.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Protocol

from anyio import to_thread
from fastapi import HTTPException, Request

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
from retrier.errors import NotAllowed
from retrier.http.rights import right_of
from retrier.store.engine.database import Database
from retrier.store.sessions import find_session, note_use
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


Tell = Callable[[str, str], None]
"""Is told the address and the reason of a refusal."""


class Guesses:
    """Counts what was refused, by address: whoever guesses is not answered for ever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = 0
        self._counts: dict[str, int] = {}
        self._lock = Lock()

    def are_too_many(self, address: str) -> bool:
        """Say whether an address has used up this second."""
        with self._lock:
            self._turn()
            return self._counts.get(address, 0) >= _GUESSES

    def add(self, address: str) -> None:
        """Count one."""
        with self._lock:
            self._turn()
            if address in self._counts or len(self._counts) < _MOST_ADDRESSES:
                self._counts[address] = self._counts.get(address, 0) + 1

    def _turn(self) -> None:
        second = int(self._clock.monotonic())
        if second != self._second:
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
        tell: Tell = lambda _address, _reason: None,
        clock: Clock | None = None,
    ) -> None:
        self._db = db
        self.rules = rules
        self._bearer = bearer
        self._tell = tell
        self._clock = clock or SystemClock()
        self._guesses = Guesses(self._clock)
        self._recent = _Recent(self._clock)

    async def find(self, request: Request) -> Access:
        """Return who asks. Raises HTTPException: 401 for nobody, 429 for who guesses."""
        if self.rules is None:
            return OPEN
        address = request.client.host if request.client else ""
        try:
            found = await self._find(request, address, self.rules)
        except Refused as refusal:
            self._guesses.add(address)
            self._tell(address, str(refusal))
            if self._guesses.are_too_many(address):
                raise _too_many() from None
            raise HTTPException(401, str(refusal), ASKED) from None
        return replace(found, address=address, reads_own_only=self.rules.reads_own_only)

    def refuse(self, access: Access, why_not: str) -> None:
        """Note that somebody who is known was refused."""
        self._tell(access.address, f"{access.shown}: {why_not}")

    def forget(self, sha256: str) -> None:
        """Ask the database anew for this session: it was ended."""
        self._recent.forget(sha256)

    async def _find(self, request: Request, address: str, rules: AccessRules) -> Access:
        named = request.headers.getlist("authorization")
        if named:
            scheme, _, token = named[0].partition(" ")
            if len(named) > 1 or scheme.lower() != "bearer":
                raise Refused("What is sent as Authorization is one Bearer token.")
            return await self._of_bearer(token.strip(), address, rules)
        session = request.cookies.get(cookie_of(request))
        if session:
            return await self._of_session(hash_secret(session), address)
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
            return await to_thread.run_sync(self._bearer.read, token)
        sha256 = hash_secret(token)
        known = [each for each in rules.tokens if hmac.compare_digest(each.sha256, sha256)]
        if known:
            if not known[0].holds(self._clock.now()):
                raise Refused(NOT_KNOWN)
            return _as_access(known[0])
        return await self._look_up(sha256, address, self._find_token)

    async def _of_session(self, sha256: str, address: str) -> Access:
        return await self._look_up(sha256, address, self._find_session)

    async def _look_up(
        self, sha256: str, address: str, look: Callable[[Database, str], Access]
    ) -> Access:
        recent = self._recent.find(sha256)
        if recent is not None:
            return recent
        self._refuse_guesser(address)
        if self._db is None:
            raise Refused(NOT_KNOWN)
        found = await to_thread.run_sync(look, self._db, sha256)
        self._recent.keep(sha256, found)
        return found

    def _refuse_guesser(self, address: str) -> None:
        """Raise HTTPException for who has guessed too often, before anything costly is done."""
        if self._guesses.are_too_many(address):
            raise _too_many()

    @staticmethod
    def _find_token(db: Database, sha256: str) -> Access:
        found = find_token(db, sha256)
        if found is None:
            raise Refused(NOT_KNOWN)
        return _as_access(found)

    @staticmethod
    def _find_session(db: Database, sha256: str) -> Access:
        found = find_session(db, sha256)
        if found is None:
            raise Refused(_OVER)
        note_use(db, sha256)
        return found[0]


_DOTS = 2
"""In a JWT."""


def _too_many() -> HTTPException:
    return HTTPException(429, "Too many wrong tokens came from this address.", {"Retry-After": "1"})


def _as_access(token: AccessToken) -> Access:
    return Access(name=token.name, how=How.TOKEN, role=token.role, queues=token.queues)


def _of_proxy(request: Request, rules: AccessRules) -> Access | None:
    """Return whom a proxy of the rules names; None if the request does not come through one."""
    proxy = rules.proxy
    if proxy is None or not proxy.proxies.include(request.scope.get(PEER, "")):
        return None
    users = request.headers.getlist(proxy.user_header)
    if len(users) != 1 or not users[0].strip():
        return None
    told = ",".join(request.headers.getlist(proxy.groups_header))
    role = role_of((each.strip() for each in told.split(",")), proxy.roles)
    if role is None:
        raise NotAllowed(f"{NO_ROLE} None of your groups has one: {proxy.groups_header}.")
    return Access(name=users[0].strip(), how=How.PROXY, role=role)


async def find_access(request: Request) -> Access:
    """Return who asks, if the role is enough for this route.

    Raises HTTPException: 401, 403 and 429.
    """
    gate: Gate = request.app.state.parts.gate
    access = await gate.find(request)
    request.state.access = access
    why_not = access.why_not(right_of(request))
    if why_not is not None:
        gate.refuse(access, why_not)
        raise NotAllowed(why_not)
    return access


async def is_known(request: Request) -> bool:
    """Say whether somebody asks who may read, where everybody is answered something."""
    gate: Gate = request.app.state.parts.gate
    try:
        return (await gate.find(request)).may(Right.READ)
    except HTTPException:
        return False
