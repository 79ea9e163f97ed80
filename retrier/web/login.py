"""Log in and log out: the page for whoever is not known yet, the way to the provider and back.

These routes are open to everybody, and there only where the settings have `access`. The cookie of a
session is never sent along with a link of another site (`SameSite=Strict`), and the way back from
the provider is one: so a page of ours leads on from there.
"""

import hmac
from contextlib import suppress
from functools import partial
from secrets import token_urlsafe
from typing import Annotated
from urllib.parse import parse_qs, quote

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.clock import SystemClock
from retrier.domain.access import Access, How, hash_secret
from retrier.domain.oidc import Person
from retrier.domain.text import clean
from retrier.http.access import SECURE_COOKIE, Gate, Guesses, Refused, cookie_of, too_many
from retrier.http.login import Away, LoginProvider
from retrier.store.sessions import (
    LONGEST_LOGIN,
    LONGEST_SESSION,
    OF_TOKEN,
    begin_login,
    begin_session,
    take_login,
)
from retrier.web.forms import LONGEST_ADDRESS, local, read_form
from retrier.web.page import see_other, show
from retrier.web.parts import PageParts

RETURN = "/login/return"
_LOGIN_COOKIE = "retrier_login"
_TOO_LONG = 8192
"""Bytes of a code or a state: no provider needs as many."""
_AT_ONCE = 4
"""Log-ins that wait for the provider at once."""

UNKNOWN_STATE = "This log-in was not begun in this browser, it is older than ten minutes, or it was used already."

router = APIRouter()

Back = Annotated[str, Query(alias="next")]


class Doorkeeper:
    """What log-ins share: threads of their own, and how many each address may begin."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(_AT_ONCE)
        self.begun = Guesses(SystemClock())


def _keeper(request: Request) -> Doorkeeper:
    keeper: Doorkeeper = request.app.state.doorkeeper
    return keeper


Keeper = Annotated[Doorkeeper, Depends(_keeper)]


def _parts(request: Request) -> PageParts:
    parts: PageParts = request.app.state.parts
    return parts


Anybody = Annotated[PageParts, Depends(_parts)]
"""The parts, for whoever asks: these routes are for who is not known yet."""


def show_login(
    request: Request, status: int, back: str, *, why: str = "", trouble: str | None = None
) -> Response:
    """Show the page on which people log in; `why` is what was wrong with the last try."""
    parts = _parts(request)
    provider = parts.login
    return show(
        request,
        "login.html",
        status=status,
        back=back,
        way=f"/login/begin?next={quote(back, safe='')}",
        why=why,
        host=None if provider is None else provider.host,
        trouble=trouble or (None if provider is None else provider.trouble),
    )


def show_way_on(request: Request, status: int, to: str) -> Response:
    """Show a page that leads on to one of ours by itself: it is asked for by us, and not by others."""
    return show(request, "go_on.html", status=status, to=to)


def ask_to_log_in(request: Request, why: str) -> Response:
    """Answer a browser that has to log in first. `why` is empty if it has shown nothing at all."""
    query = f"?{request.url.query}" if request.url.query else ""
    asked = f"{request.url.path}{query}" if request.method == "GET" else "/"
    back = clean(local(asked, "/"), LONGEST_ADDRESS)
    is_linked = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if is_linked and request.method == "GET" and cookie_of(request) not in request.cookies:
        # A link of another site comes without the cookie: perhaps there is a session all the same.
        return show_way_on(request, 401, f"/login?next={quote(back, safe='')}")
    answer = show_login(request, 401, back, why=why)
    if "hx-request" in request.headers:
        answer.headers["HX-Refresh"] = "true"
    return answer


@router.get("/login")
async def get_login(request: Request, parts: Anybody, back: Back = "/") -> Response:
    """Show where to log in; whoever has logged in already goes on."""
    back = _own(back)
    try:
        await parts.gate.find(request)
    except HTTPException as refusal:
        # A session that is over is as good as none. Who guesses is told so.
        if refusal.status_code not in (401, 403):
            raise
        return show_login(request, 200, back)
    return see_other(back)


@router.get("/login/begin")
async def begin(request: Request, parts: Anybody, keeper: Keeper, back: Back = "/") -> Response:
    """Send the browser to the provider, and keep what the way back needs."""
    provider, back = _provider(parts), _own(back)
    address = request.client.host if request.client else ""
    if keeper.begun.are_too_many(address):
        raise too_many()
    keeper.begun.add(address)
    ask = partial(provider.begin, _return_to(request), back)
    try:
        to, state, attempt = await to_thread.run_sync(ask, limiter=keeper.threads)
    except Away as away:
        return show_login(request, 503, back, trouble=str(away))
    browser = request.cookies.get(_login_cookie(request)) or token_urlsafe(32)
    keep = partial(begin_login, state=_bound(state, browser), attempt=attempt)
    await to_thread.run_sync(keep, parts.db)
    answer = see_other(to)
    answer.set_cookie(
        _login_cookie(request),
        browser,
        max_age=int(LONGEST_LOGIN.total_seconds()),
        httponly=True,
        secure=_is_secure(request),
        samesite="lax",
    )
    return answer


@router.get(RETURN)
async def come_back(request: Request, parts: Anybody, keeper: Keeper) -> Response:
    """Take the browser back from the provider, and begin a session. A code is used once."""
    provider, told = _provider(parts), request.query_params
    state, browser = told.get("state", ""), request.cookies.get(_login_cookie(request), "")
    if not (state and browser) or max(len(state), len(browser)) > _TOO_LONG:
        return show_login(request, 400, "/", why=UNKNOWN_STATE)
    take = partial(take_login, state=_bound(state, browser))
    attempt = await to_thread.run_sync(take, parts.db)
    if attempt is None:
        return show_login(request, 400, "/", why=UNKNOWN_STATE)
    try:
        code = _code_of(request, provider)
        ask = partial(provider.finish, code, _return_to(request), attempt)
        person = await to_thread.run_sync(ask, limiter=keeper.threads)
    except Refused as refusal:
        return show_login(request, 400, attempt.back, why=str(refusal))
    except Away as away:
        return show_login(request, 503, attempt.back, trouble=str(away))
    answer = show_way_on(request, 200, _own(attempt.back))
    answer.delete_cookie(
        _login_cookie(request), httponly=True, secure=_is_secure(request), samesite="lax"
    )
    return await _begin_session(request, answer, person)


@router.post("/login/token")
async def log_in_with_token(
    request: Request, parts: Anybody, content: Annotated[bytes, Depends(read_form)]
) -> Response:
    """Begin a session for who has a token; it ends when the token is revoked."""
    try:
        fields = parse_qs(content.decode(), max_num_fields=10)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    token = fields.get("token", [""])[0].strip()
    back = _own(fields.get("next", ["/"])[0])
    try:
        found = await parts.gate.find_token(request, token)
    except HTTPException as refusal:
        if refusal.status_code != 401:  # noqa: PLR2004 - not known
            raise
        return show_login(request, 401, back, why=refusal.detail)
    subject = f"{OF_TOKEN}{hash_secret(token)}"
    person = Person(subject=subject, name=_shown(found), role=found.role, queues=found.queues)
    return await _begin_session(request, see_other(back), person)


@router.post("/logout")
async def log_out(
    request: Request, parts: Anybody, content: Annotated[bytes, Depends(read_form)]
) -> Response:
    """End this session, or all that the person has."""
    everywhere = content == b"everywhere=yes"
    with suppress(HTTPException):  # a session that is over is ended, too
        who = await parts.gate.find(request)
        await to_thread.run_sync(parts.gate.note, who, "log_out")
    await parts.gate.log_out(request, everywhere=everywhere)
    answer = see_other("/login?done=logged-out")
    answer.delete_cookie(
        cookie_of(request), httponly=True, secure=_is_secure(request), samesite="strict"
    )
    return answer


async def _begin_session(request: Request, answer: Response, person: Person) -> Response:
    """Begin one under a new secret: one that somebody knew before is worth nothing."""
    parts = _parts(request)
    gate: Gate = parts.gate
    secret, before = token_urlsafe(32), request.cookies.get(cookie_of(request))
    replaces = gate.seal(before) if before else None
    keep = partial(begin_session, secret=gate.seal(secret), person=person, replaces=replaces)
    await to_thread.run_sync(keep, parts.db)
    who = Access(
        name=person.name,
        subject=person.subject,
        how=How.TOKEN if person.subject.startswith(OF_TOKEN) else How.OIDC,
        role=person.role,
        queues=person.queues,
        address=request.client.host if request.client else "",
    )
    await to_thread.run_sync(gate.note, who, "log_in")
    answer.set_cookie(
        cookie_of(request),
        secret,
        max_age=int(LONGEST_SESSION.total_seconds()),
        httponly=True,
        secure=_is_secure(request),
        samesite="strict",
    )
    return answer


def _code_of(request: Request, provider: LoginProvider) -> str:
    """Return the code that the provider gave. Raises Refused if it gave none."""
    told = request.query_params
    if "error" in told:
        words = told.get("error_description") or told["error"]
        raise Refused(f"The provider says: {clean(words, 200)}.")
    # A provider that names itself must be the one to which the browser was sent.
    if not hmac.compare_digest(told.get("iss", provider.issuer).encode(), provider.issuer.encode()):
        raise Refused("Another provider answered than the one that was asked.")
    code = told.get("code", "")
    if not code or len(code) > _TOO_LONG:
        raise Refused("The provider sent no code.")
    return code


def _provider(parts: PageParts) -> LoginProvider:
    if parts.login is None:
        raise HTTPException(404, "There is no provider of log-ins here.")
    return parts.login


def _own(back: str) -> str:
    """Return an address of ours to go on to; never one of these routes, nor of another site."""
    found = clean(local(back, "/"), LONGEST_ADDRESS)
    return "/" if found.startswith(("/login", "/logout")) else found


def _bound(state: str, browser: str) -> str:
    """Return what a log-in is kept under: it holds in the browser that began it."""
    return f"{state}.{browser}"


def _return_to(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{RETURN}"


def _is_secure(request: Request) -> bool:
    return cookie_of(request) == SECURE_COOKIE


def _login_cookie(request: Request) -> str:
    return f"__Host-{_LOGIN_COOKIE}" if _is_secure(request) else _LOGIN_COOKIE


def _shown(access: Access) -> str:
    return f"token {access.name}"
