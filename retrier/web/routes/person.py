"""Who asks: the name that a person wants to be shown with what they ask for."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from retrier.web.forms import LONGEST_NAME, NAME_COOKIE, NOBODY, SentForm, local, name_of
from retrier.web.showing import see_other, show

router = APIRouter()

_YEAR = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class NameView:
    """The form: the name as it is, and the page to go back to."""

    name: str
    back: str


@router.get("/name")
def get_name(request: Request, back: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Show the form for the name."""
    name = name_of(request)
    view = NameView(name="" if name == NOBODY else name, back=local(back, "/"))
    return show(request, "name.html", view)


@router.post("/name")
def set_name(form: SentForm) -> Response:
    """Keep the name in a cookie of this browser."""
    answer = see_other(form.next("name"))
    name = quote(form.text("name", LONGEST_NAME))
    answer.set_cookie(NAME_COOKIE, name, max_age=_YEAR, httponly=True, samesite="strict")
    return answer
