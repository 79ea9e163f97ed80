"""Tokens for programs: listed, made, revoked. Only an administrator may."""

from datetime import timedelta

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict

from retrier.api.answers import (
    HEADERS,
    Answer,
    Refusal,
    Routes,
    answer,
    present,
    problem,
    time,
    told,
)
from retrier.api.parts import Parts
from retrier.api.requests import Age, InContext, Line, PageQuery, page_headers
from retrier.api.shapes import service as shapes
from retrier.domain.access import AccessRole
from retrier.store.tokens import StoredToken, TokenRefusal, list_tokens

router = Routes(prefix="/api", tags=["access"])


class WantedToken(BaseModel):
    """What POST takes; without `queues` it may act on all, without `expires` it never runs out."""

    model_config = ConfigDict(extra="forbid")

    name: Line
    role: AccessRole
    queues: list[Line] | None = None
    expires: Age | None = None


_TAKEN = (TokenRefusal.TAKEN, TokenRefusal.OF_SETTINGS, TokenRefusal.NO_ACCESS)


@router.get("/tokens")
def get_tokens(request: Request, page: PageQuery, parts: Parts) -> Answer[list[shapes.AccessToken]]:
    """List the tokens of the database by name, with those that are revoked."""
    parts.gateway.tokens.may_look()
    found = list_tokens(parts.db)
    items = [token(each) for each in found[page.offset : page.offset + page.size]]
    return answer(request, items, page_headers(request, page, len(found)))


@router.post("/tokens", status_code=201)
def create_token(body: WantedToken, context: InContext) -> Answer[shapes.NewToken] | Refusal:
    """Make a token. The answer holds it: it is shown this once, and only its hash is kept."""
    made = context.gateway.tokens.create(
        body.name,
        body.role,
        None if body.queues is None else tuple(body.queues),
        None if body.expires is None else timedelta(seconds=body.expires),
        context.requested_by,
    )
    if isinstance(made, TokenRefusal):
        return problem(409 if made in _TAKEN else 400, made)
    return told({"name": body.name, "token": made}, status=201)


@router.delete("/tokens/{name}", status_code=204)
def revoke_token(name: str, context: InContext) -> Response:
    """Revoke a token: within a second nobody is let in with it. One that is revoked is a success."""
    refusal = context.gateway.tokens.revoke(name, context.requested_by)
    if refusal is TokenRefusal.UNKNOWN:
        return problem(404, f"No token has the name {name[:100]}.")
    if refusal is TokenRefusal.OF_SETTINGS:
        return problem(409, refusal)
    return Response(status_code=204, headers=HEADERS)


def token(shown: StoredToken) -> shapes.AccessToken:
    """Show one token."""
    of = shown.token
    view: shapes.AccessToken = {
        "name": of.name,
        "role": of.role,
        "created_at": time(shown.created_at),
        "created_by": shown.created_by,
    }
    if of.queues is not None:
        view["queues"] = list(of.queues)
    if of.expires is not None:
        view["expires_at"] = time(of.expires)
    if shown.revoked_at is not None:
        view["revoked_at"] = time(shown.revoked_at)
        view["revoked_by"] = shown.revoked_by or ""
    return present(view)
