"""The form of an act: its fields, its key, who asks, and what a person is asked once before."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Annotated
from urllib.parse import parse_qs, quote, unquote
from uuid import uuid4

from fastapi import Depends, HTTPException, Request

from retrier.domain.access import Access
from retrier.domain.archive_operation import Act, ArchiveRequest
from retrier.domain.headers import why_not_dropped
from retrier.domain.patches import WrongPatch, parse_patch
from retrier.domain.retry_operation import (
    HIGHEST_RATE,
    INEXACT,
    LARGEST_CANARY,
    MOST_MESSAGES,
    YEAR,
    AskedAgain,
    Canary,
    Plan,
    RetryRequest,
    RetryTerms,
    as_counted,
    hash_retry,
    hash_subject,
    read_plan,
    type_of,
    within,
)
from retrier.domain.retry_operation import LONGEST as LONGEST_PLAN
from retrier.domain.selection import Selection
from retrier.domain.text import clean
from retrier.domain.times import NoTime, read_duration
from retrier.domain.values import dataclass
from retrier.http import parts
from retrier.http.access import find_access
from retrier.http.parts import LONGEST_KEY, one_line
from retrier.web.parts import PageParts

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
        return self._number("rate", "A rate", 1, HIGHEST_RATE)

    def _number(self, name: str, what: str, least: int, most: int) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and least <= int(text[:9]) <= most):
            raise HTTPException(400, f"{what} is a whole number from {least} to {most:,}.")
        return int(text)

    def _duration(self, name: str, what: str) -> timedelta | None:
        text = self.text(name)
        try:
            found = read_duration(text) if text else None
        except NoTime as error:
            raise HTTPException(400, f"{what}: {error}.") from None
        if found is not None and found > YEAR:
            raise HTTPException(400, f"{what} is a year at most.")
        return found

    def terms(self, parts: PageParts) -> RetryTerms:
        """Return how the messages are to be sent. Raises HTTPException for what cannot be meant."""
        destination = self.text("destination") or None
        if destination is not None:
            _check_destination(parts, destination)
        return RetryTerms(
            limit=self._number("limit", "A limit", 1, MOST_MESSAGES),
            destination=destination,
            delay=self._duration("in", "The time before it begins"),
            rate=self.rate,
            canary=self._canary(),
            drop_headers=self.drop_headers,
            patch=self.patch,
        )

    def _canary(self) -> Canary | None:
        size = self._number("canary", "How many go first", 1, LARGEST_CANARY)
        wait = self._duration("canary_wait", "The wait after the first ones")
        most_back = self._number("canary_limit", "How many may come back", 0, LARGEST_CANARY)
        if size is None:
            if wait is not None or most_back is not None:
                raise HTTPException(400, "Say how many go first, or leave the wait for them empty.")
            return None
        usual = Canary(size=size)
        return Canary(
            size=size,
            wait=usual.wait if wait is None else wait,
            most_back=usual.most_back if most_back is None else most_back,
        )

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

    @property
    def patch(self) -> str | None:
        """What is changed of each message. Raises HTTPException for what is no patch."""
        text = self.exactly("patch").strip()
        try:
            return parse_patch(text) if text else None
        except WrongPatch as error:
            raise HTTPException(400, f"{error.where or 'The patch'} {error}.") from None

    def is_untried(self, request: RetryRequest) -> bool:
        """Say whether its patch is not that of the preview: nobody has seen what it would make."""
        plan = read_plan(self.text("plan", LONGEST_PLAN))
        is_seen = plan is not None and plan.subject == hash_retry(request)
        return request.terms.patch is not None and not is_seen

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
        plan = self.plan(hash_retry(request))
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


def _form(
    request: Request,
    content: Annotated[bytes, Depends(read_form)],
    access: Annotated[Access, Depends(find_access)],
) -> Form:
    # No coroutine: so it is decoded in a thread, and health is answered meanwhile.
    try:
        text = content.decode()
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    who = parts.asked_by(request, access, _written_name(request))
    return Form(fields=fields, requested_by=who)


SentForm = Annotated[Form, Depends(_form)]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionForm:
    """A form that asks before it acts. `button` is empty if nothing would be done, `leave` leads away.

    `counts` say how many, `warnings` what a person must know, `notes` the rest. `destinations` are
    queues with how many messages go there, `others` how many go to further ones. `left_out` counts
    by reason what would be left as it is. `fields` are hidden, and name what it is about. `why` is
    "asked", "needed", or empty. `reasons` are those that a message may be given.
    """

    title: str
    what: str
    post_to: str
    back: str
    button: str
    text: str = ""
    counts: Sequence[str] = ()
    destinations: Sequence[tuple[str, int]] = ()
    others: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    fields: Sequence[tuple[str, str]] = ()
    why: str = "asked"
    reasons: Sequence[str] = ()
    leave: str = "Cancel"


def _check_destination(parts: PageParts, destination: str) -> None:
    why_not = parts.gateway.why_not_send_to(destination)
    if why_not is not None:
        raise HTTPException(400, f"Retries cannot be sent there: {why_not}.")
    if destination in parts.look_at([destination]).missing:
        raise HTTPException(409, f"The queue {destination} does not exist: the retry would fail.")
