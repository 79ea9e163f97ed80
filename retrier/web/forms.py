"""The form of an act: its fields, its key, who asks, and what a person is asked once before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qs, quote, unquote
from uuid import uuid4

from fastapi import Depends, HTTPException, Request

from retrier.domain.archive_operation import Act, ArchiveRequest
from retrier.domain.headers import why_not_dropped
from retrier.domain.retry_operation import (
    HIGHEST_RATE,
    INEXACT,
    RETRY,
    Plan,
    RetryRequest,
    RetryTerms,
    as_counted,
    hash_subject,
    read_plan,
    type_of,
    within,
)
from retrier.domain.retry_operation import LONGEST as LONGEST_PLAN
from retrier.domain.selection import Selection
from retrier.domain.text import clean
from retrier.gateway import AskedAgain
from retrier.http import parts
from retrier.http.parts import LONGEST_KEY, one_line

LONGEST_WHY = 1000
LONGEST_HEADERS = 1000
LONGEST_ADDRESS = 8000
"""Bytes: names of queues and streams may stand in it."""
MOST_FIELDS = 10_000
LARGEST_FORM = 256 * 1024
"""Bytes. The text of policies is the longest that a form of ours has: 64 Ki characters."""
OTHER_THAN_COUNTED = "What was selected is not what the preview counted. Look again."
NAME_COOKIE = "retrier_user"


def new_key() -> str:
    """Return a key for a form: however often it is sent, its act is done once."""
    return str(uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a form was sent with. `requested_by` is who sends it, and from where."""

    fields: Mapping[str, Sequence[str]]
    requested_by: str

    def text(self, name: str, most: int = 1000) -> str:
        """Return the first value of a field in one line, cut to a length; empty if there is none."""
        return one_line(self.fields.get(name, [""])[0], most)

    def exactly(self, name: str) -> str:
        """Return the first value of a field as it was sent: cut, it would be another condition."""
        return next(iter(self.values(name)), "")

    def values(self, name: str) -> Sequence[str]:
        """Return all values of a field."""
        return self.fields.get(name, ())

    @property
    def key(self) -> str:
        """The idempotency key. Raises HTTPException if the form has none."""
        key = self.text("key", LONGEST_KEY)
        if not key:
            raise HTTPException(400, "The form has no key, so it could be sent twice by accident.")
        return key

    @property
    def why(self) -> str | None:
        """Why it is asked for, if the person says so."""
        return self.text("why", LONGEST_WHY) or None

    @property
    def rate(self) -> int | None:
        """How many messages a second are sent at most. Raises HTTPException if it is no number."""
        text = self.text("rate")
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= HIGHEST_RATE):
            raise HTTPException(400, f"A rate is a whole number from 1 to {HIGHEST_RATE:,}.")
        return int(text)

    @property
    def drop_headers(self) -> tuple[str, ...]:
        """The headers that retries go without. Raises HTTPException for one that they need."""
        text = self.text("drop_headers", LONGEST_HEADERS + 1)
        if len(text) > LONGEST_HEADERS:
            raise HTTPException(
                400, f"Headers are named in {LONGEST_HEADERS:,} characters at most."
            )
        named = tuple(each.strip() for each in text.split(","))
        for each in named:
            why_not = why_not_dropped(each)
            if why_not is not None:
                raise HTTPException(400, f"{each} {why_not}.")
        return tuple(each for each in named if each)

    def back(self, otherwise: str) -> str:
        """Return the page from which the form came; never that of another site."""
        return clean(local(self.exactly("next"), otherwise), LONGEST_ADDRESS)

    def next(self, done: str, otherwise: str = "/") -> str:
        """Return the page to go to, which says what was done; never that of another site."""
        to = self.back(otherwise)
        path, _, query = to.partition("?")
        kept = [each for each in query.split("&") if each and not each.startswith("done=")]
        return f"{path}?{'&'.join([*kept, f'done={quote(done)}'])}"

    def next_after(self, again: AskedAgain, otherwise: str) -> str:
        """Return the page to go to after pending retries were asked for again."""
        match again.operation_ids:
            case ():
                return self.next("nothing-pending", otherwise)
            case (one,):
                return self.next(f"retry:{one}", otherwise)
            case _:
                return "/operations?done=again"

    def retry(self, selection: Selection, words: str, terms: RetryTerms) -> RetryRequest:
        """Return a request to retry what a selection matches; `words` name it: `retry of ...`."""
        return RetryRequest(
            retry_type=type_of(selection),
            selection=selection,
            originator=words,
            requested_by=self.requested_by,
            why=self.why,
            idempotency_key=self.key,
            terms=terms,
        )

    def plan(self, subject: str) -> Plan:
        """Return the plan of the preview that the form was a part of.

        Raises HTTPException if the form has none, or that of another preview: without its bound
        the request would be about more than a person has seen.
        """
        plan = read_plan(self.text("plan", LONGEST_PLAN))
        if plan is None or plan.subject != subject:
            raise HTTPException(409, OTHER_THAN_COUNTED)
        return plan

    def planned(self, request: RetryRequest) -> RetryRequest:
        """Return a request for what the preview counted, and nothing else. Raises HTTPException."""
        plan = self.plan(hash_subject(RETRY, request.selection))
        if plan.numbers is None:
            raise HTTPException(409, f"{INEXACT}. Wait until other retries are through.")
        return within(request, plan)

    def counted(self, act: Act, selection: Selection, *more: str) -> Selection:
        """Return what a question has counted of a selection, and nothing that entered it since.

        Raises HTTPException as `plan` does; named ids need none.
        """
        if selection.ids is not None:
            return selection
        return as_counted(selection, self.plan(hash_subject(act, selection, *more)))

    def archive(self, act: Act, selection: Selection, words: str) -> ArchiveRequest:
        """Return a request to archive, unarchive or resolve; `words` name it: `archive of ...`."""
        return ArchiveRequest(
            act=act,
            selection=selection,
            originator=words,
            requested_by=self.requested_by,
            why=self.why,
            idempotency_key=self.key,
        )


def local(path: str, otherwise: str) -> str:
    """Return an address of this page; the other one if it is that of another site, or none.

    Browsers take tabs and newlines out of an address before they read it, and a backslash for a
    slash: `/<tab>/evil.example` would lead to evil.example.
    """
    is_plain = path.isprintable() and "\\" not in path
    return path if is_plain and path.startswith("/") and not path.startswith("//") else otherwise


def name_of(request: Request) -> str:
    """Return the name of who asks: as a proxy says it, or as the person wrote it on the page."""
    return parts.name_of(request, _written_name(request))


def _written_name(request: Request) -> str:
    return unquote(request.cookies.get(NAME_COOKIE, ""))


_TOO_LARGE = f"A form has at most {LARGEST_FORM:,} bytes."
_DIGITS = 18


async def read_form(request: Request) -> bytes:
    """Read what a form was sent with, and nothing of one that says it is too large.

    Raises HTTPException.
    """
    size = request.headers.get("content-length", "")
    if size.isdecimal() and int(size[:_DIGITS]) > LARGEST_FORM:
        raise HTTPException(413, _TOO_LARGE)
    content = bytearray()
    async for some in request.stream():
        content += some
        if len(content) > LARGEST_FORM:
            raise HTTPException(413, _TOO_LARGE)
    return bytes(content)


def _form(request: Request, content: Annotated[bytes, Depends(read_form)]) -> Form:
    # No coroutine: so it is decoded in a thread, and health is answered meanwhile.
    try:
        text = content.decode()
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return Form(fields=fields, requested_by=parts.asked_by(request, _written_name(request)))


SentForm = Annotated[Form, Depends(_form)]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionForm:
    """A form that asks before it acts; `why` is "asked", "needed", or empty.

    `left_out` counts by reason what would be left as it is. `button` is empty if nothing would be
    done. `reasons` are those that a message may be given.
    """

    title: str
    what: str
    post_to: str
    back: str
    button: str
    text: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    why: str = "asked"
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationForm:
    """A form that acts, with what it would do. `act` is on its button, `back` leads away from it.

    `counts` say how many, `notes` what a person must know. `destinations` are queues with how many
    messages go there. `fields` are hidden, and name what it is about. Nothing is asked if `is_empty`.
    """

    title: str
    lead: str
    act: str
    post_to: str
    back: str
    counts: Sequence[str] = ()
    notes: Sequence[str] = ()
    destinations: Sequence[tuple[str, int]] = ()
    others: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    fields: Sequence[tuple[str, str]] = ()
    asks_why: bool = False
    is_empty: bool = False
    leave: str = "Cancel"
