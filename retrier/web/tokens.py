"""Tokens for programs: listed, made, revoked, each shown once when it is made."""

from datetime import timedelta

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.access import LONGEST_TOKEN_NAME, AccessRole
from retrier.domain.times import NoTime, as_sentence, read_duration
from retrier.store.tokens import TokenRefusal, list_tokens
from retrier.web.forms import Form, QuestionForm, SentForm
from retrier.web.page import see_other, show
from retrier.web.parts import Parts
from retrier.web.wording import sentence

router = APIRouter(prefix="/tokens")

_HERE = "/tokens"
_TAKEN = (TokenRefusal.TAKEN, TokenRefusal.OF_SETTINGS, TokenRefusal.NO_ACCESS)


@router.get("")
def get_tokens(request: Request, parts: Parts) -> Response:
    """List the tokens of the database, with the form for a new one."""
    parts.gateway.tokens.may_look()
    return show(
        request,
        "tokens.html",
        current=_HERE,
        tokens=list_tokens(parts.db),
        of_settings=() if parts.gate.rules is None else parts.gate.rules.tokens,
        is_asked=parts.gate.rules is not None,
        roles=list(AccessRole),
        longest=LONGEST_TOKEN_NAME,
    )


@router.post("")
def create_token(request: Request, parts: Parts, form: SentForm) -> Response:
    """Make a token and show it, this once: it stands in no address and in no log."""
    queues = tuple(form.text("queues").replace(",", " ").split()) or None
    role = form.text("role")
    if role not in list(AccessRole):
        raise HTTPException(400, f"A role is one of: {', '.join(AccessRole)}.")
    name = form.text("name")
    made = parts.gateway.tokens.create(
        name, AccessRole(role), queues, _lasts(form), form.requested_by
    )
    if isinstance(made, TokenRefusal):
        raise HTTPException(409 if made in _TAKEN else 400, sentence(made))
    return show(request, "token.html", current=_HERE, name=name, token=made)


@router.get("/{name}/revoke")
def ask_revoke(request: Request, name: str, parts: Parts) -> Response:
    """Say what it means, and show the form that does it; of what is no token, what it would answer."""
    parts.gateway.tokens.may_look()
    if name not in {stored.token.name for stored in list_tokens(parts.db)}:
        rules = parts.gate.rules
        given = rules is not None and name in {token.name for token in rules.tokens}
        raise _refuse(TokenRefusal.OF_SETTINGS if given else TokenRefusal.UNKNOWN, name)
    question = QuestionForm(
        title=f"Revoke the token {name[:LONGEST_TOKEN_NAME]}?",
        what="Within a second nobody is let in with it, on every instance. It cannot be taken back.",
        post_to=f"{_HERE}/{name[:LONGEST_TOKEN_NAME]}/revoke",
        back=_HERE,
        button="Revoke the token",
        why="",
    )
    return show(request, "question.html", current=_HERE, question=question)


@router.post("/{name}/revoke")
def revoke_token(name: str, parts: Parts, form: SentForm) -> Response:
    """Revoke it; one that is revoked already is revoked, too."""
    refusal = parts.gateway.tokens.revoke(name, form.requested_by)
    if refusal not in (None, TokenRefusal.REVOKED):
        raise _refuse(refusal, name)
    return see_other(f"{_HERE}?done=token-revoked")


def _refuse(refusal: TokenRefusal, name: str) -> HTTPException:
    if refusal is TokenRefusal.UNKNOWN:
        return HTTPException(404, f"No token has the name {name[:LONGEST_TOKEN_NAME]}.")
    return HTTPException(409, sentence(refusal))


def _lasts(form: Form) -> timedelta | None:
    text = form.text("expires")
    try:
        return read_duration(text) if text else None
    except NoTime as error:
        raise HTTPException(400, as_sentence(error)) from None
