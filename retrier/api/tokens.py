"""Tokens for programs: listed, made, revoked. Only an administrator may."""

from datetime import timedelta
from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

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
from retrier.api.requests import InContext, PageQuery, page_headers, read_age
from retrier.api.shapes import service as shapes
from retrier.domain.access import AccessRole
from retrier.domain.times import DURATION_PATTERN
from retrier.store.tokens import StoredToken, TokenRefusal, list_tokens

router = Routes(prefix="/api", tags=["access"])

_LONGEST = 36_500 * 86_400

Lasts = Annotated[
    float,
    BeforeValidator(read_age),
    Field(gt=0, le=_LONGEST, allow_inf_nan=False),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST},
                {"type": "string", "pattern": f"^{DURATION_PATTERN}$"},
            ]
        }
    ),
]


class WantedToken(BaseModel):
    """What POST takes; without `queues` it may act on all, without `expires` it never runs out."""

    model_config = ConfigDict(extra="forbid")

    name: str
    role: AccessRole
    queues: list[str] | None = None
    expires: Lasts | None = None


_TAKEN = (TokenRefusal.TAKEN, TokenRefusal.OF_SETTINGS)
_NO_ACCESS = (
    "Nobody is asked for a token here. Make it with the section `access` in the settings: else "
    "whoever reaches this address now could keep a way in for later."
)


@router.get("/tokens")
def get_tokens(request: Request, page: PageQuery, parts: Parts) -> Answer[list[shapes.AccessToken]]:
    """List the tokens of the database by name, with those that are revoked."""
    parts.gateway.tokens.may_look()
    found = list_tokens(parts.db)
    items = [token(each) for each in found[page.offset : page.offset + page.size]]
    return answer(request, items, page_headers(request, page, len(found)))


@router.post("/tokens", status_code=201)
def create_token(
    body: WantedToken, parts: Parts, context: InContext
) -> Answer[shapes.NewToken] | Refusal:
    """Make a token. The answer holds it: it is shown this once, and only its hash is kept."""
    if parts.gate.rules is None:
        return problem(409, _NO_ACCESS)
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
