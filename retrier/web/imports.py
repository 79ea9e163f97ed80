"""Failed imports: listed, shown, read again, sent to a queue as they came, deleted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Annotated, assert_never

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from retrier.domain.failed_imports import (
    Doubtful,
    ImportRefusal,
    NotTaken,
    NotTried,
    Sent,
    Told,
    Trial,
    WrongDialect,
    WrongQueue,
)
from retrier.domain.retry_operation import Plan, hash_words
from retrier.domain.text import jsonable
from retrier.domain.values import dataclass
from retrier.domain.wire import packed_as
from retrier.errors import BrokerUnavailable, ConfigurationError
from retrier.imports import FailedImports, SendAnswer
from retrier.store.engine.database import Database
from retrier.store.imports import (
    ImportSelection,
    count_imports,
    find_import,
    find_import_body,
    find_send,
    list_imports,
    load_imports,
    plan_imports,
)
from retrier.store.message_history import find_former_import
from retrier.store.message_lists import PageRequest
from retrier.web.bodies import hide_body, show_body
from retrier.web.forms import Form, SentForm, local
from retrier.web.page import HEADERS, IN_FULL, see_other, show
from retrier.web.pages import PAGE, PagedList, page_number
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import noun, number, plural

MOST_SHOWN = 20
"""Messages that are named of those that imports became."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What came of an act: how many were done, what they are now, and why others were left."""

    title: str
    done: int
    became: Sequence[str] = ()
    left: Counter[str] = field(default_factory=Counter)
    message_ids: Sequence[str] = ()


def read_again(
    imports: FailedImports,
    ids: Sequence[str],
    who: str,
    *,
    error_queue: str | None,
    all_up_to: int | None,
) -> ImportResult:
    """Read them again, or all of an error queue that were counted up to a number."""
    if all_up_to is not None:
        came = imports.read_all_again(error_queue, who, all_up_to)
    else:
        # Begun with the first one: an empty sum has no type of its own.
        first, *others = ids
        came = imports.read_again(first, who)
        for each in others:
            came = came.add(imports.read_again(each, who))
    done, left = (
        came.became.total(),
        came.kept + Counter({each.value: count for each, count in came.refused.items()}),
    )
    total = done + left.total()
    return ImportResult(
        title=f"{number(done)} of {plural(total, 'failed import')} could be read",
        done=done,
        became=[
            f"{number(count)} {_BECAME[kind.value]}{'' if count == 1 else 's'}"
            for kind, count in came.became.items()
        ],
        left=left,
        message_ids=came.message_ids[:MOST_SHOWN],
    )


_BECAME = {
    "failed_message": "failed message",
    "stored_before": "message that was stored already",
    "confirmation": "confirmation of a retry",
    "own_copy": "copy of the staging queue",
}


def send(
    imports: FailedImports,
    ids: Sequence[str],
    to: str,
    who: str,
    *,
    again: bool,
    confirmation: bool,
) -> ImportResult:
    """Send them to a queue as they came, in this order.

    Each is stamped before it is sent. A broker that is away ends it: the rest is left as it is.
    `again` and `confirmation`: also those that may have been sent, or that only confirm a retry.
    """
    done, left = 0, Counter[str]()
    for place, each in enumerate(ids):
        try:
            sent = imports.send(each, to, who, again=again, confirmation=confirmation)
        except BrokerUnavailable as error:
            left[f"the broker is away: {error}"] += len(ids) - place
            break
        why = _why_not(sent, to)
        done += why is None
        left.update([] if why is None else [why])
    title = f"{number(done)} of {plural(len(ids), 'failed import')} {noun(done, 'is', 'are')} sent"
    return ImportResult(title=f"{title} to {to}", done=done, left=left)


def delete(imports: FailedImports, ids: Sequence[str], who: str) -> ImportResult:
    """Delete them for good."""
    refused = [imports.delete(each, who) for each in ids]
    left = Counter(each.value for each in refused if each is not None)
    done = len(ids) - left.total()
    title = f"{number(done)} of {plural(len(ids), 'failed import')} deleted"
    return ImportResult(title=title, done=done, left=left)


def _why_not(sent: SendAnswer, to: str) -> str | None:
    match sent:
        case Sent():
            return None
        case WrongQueue(reason):
            return f"nothing can be sent there: {reason}"
        case ImportRefusal():
            return sent.value
        case NotTaken(reason) | NotTried(reason):
            return f"it was not sent: {reason}"
        case Doubtful(reason):
            return (
                f"nobody knows whether {to} has it: {reason}. Look there: if it arrived, delete the "
                "import, and if it did not, send it once more"
            )
        case _ as never:
            assert_never(never)


MOST_AT_ONCE = 200
"""Sent or deleted by one request, which a person waits for: each is a transaction of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportQuery:
    """Which imports are meant, as an address or the hidden fields of a form say it."""

    error_queue: str = ""
    everything: Annotated[str, Query(alias="all")] = ""
    ids: Annotated[Sequence[str], Query(alias="id")] = ()
    dialect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenImports:
    """The imports that an act is about. `ids` are those that one request acts on, of `total`; the oldest come first.

    `everything` says that all of an error queue are meant, or all there are; `plan` holds an act
    to what was counted of them, up to `counted_to`. `dialect` is the format to read them as.
    """

    ids: tuple[str, ...]
    total: int
    error_queue: str | None
    everything: bool
    counted_to: int | None = None
    plan: str = ""
    dialect: str = ""

    @property
    def fields(self) -> Mapping[str, Sequence[str]]:
        """The hidden fields that say it again."""
        read_as = {"dialect": [self.dialect]} if self.dialect else {}
        if self.everything:
            queue = self.error_queue or ""
            return {"all": ["1"], "error_queue": [queue], "plan": [self.plan], **read_as}
        return {"id": self.ids, **read_as}


def choose(db: Database, act: str, query: ImportQuery, plan: Plan | None = None) -> ChosenImports:
    """Return what is meant, as things are now, or what a plan holds."""
    queue = query.error_queue or None
    if not query.everything:
        ids = tuple(dict.fromkeys(query.ids))[:MOST_AT_ONCE]
        return ChosenImports(
            ids=ids, total=len(ids), error_queue=None, everything=False, dialect=query.dialect
        )
    counted = plan or plan_imports(db, act, queue)
    wanted = ImportSelection(error_queue=queue, ascending=True, counted_to=counted.counted_to)
    found = list_imports(db, wanted, PageRequest(size=MOST_AT_ONCE))
    ids = tuple(each.import_id for each in found.items)
    return ChosenImports(
        ids=ids,
        total=found.total,
        error_queue=queue,
        everything=True,
        counted_to=counted.counted_to,
        plan=counted.token,
        dialect=query.dialect,
    )


def read_choice(form: Form) -> ImportQuery:
    """Return what a form names."""
    return ImportQuery(
        error_queue=next(iter(form.values("error_queue")), ""),
        everything=form.text("all"),
        ids=[each[:100] for each in form.values("id")],
        dialect=form.text("dialect"),
    )


_LONGEST_VALUE = 2_000
MOST_HEADERS = 200


class ImportAct(StrEnum):
    """What can be done with failed imports."""

    AGAIN = "again"
    SEND = "send"
    DELETE = "delete"


def _pairs(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, _cut(_text(value))) for name, value in jsonable(values).items()]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_VALUE
    return text if more <= 0 else f"{text[:_LONGEST_VALUE]} … and {more:,} characters more"


router = APIRouter(prefix="/imports")

_HERE = "/imports"
_NO_QUEUE = "Name the queue to which they are to be sent."

_QUESTIONS = {
    ImportAct.AGAIN: (
        "Read {} again",
        "Read with the settings of today: what can be read becomes a failed message.",
    ),
    ImportAct.SEND: (
        "Send {} to a queue",
        "As they came, the oldest first. What the broker has taken is gone here.",
    ),
    ImportAct.DELETE: (
        "Delete {} for good",
        "There is no other copy, and this cannot be undone.",
    ),
}


def _is_seen(parts: PageParts, queue: str) -> bool:
    return parts.access.seen is None or parts.access.owns(queue)


@router.get("")
def get_imports(request: Request, parts: Parts, error_queue: str = "", page: str = "") -> Response:
    """List failed imports, the newest first."""
    wanted = PageRequest(number=page_number(page), size=PAGE)
    found = list_imports(parts.db, ImportSelection(error_queue=error_queue or None), wanted)
    listing = PagedList(
        rows=found.items,
        total=found.total,
        number=wanted.number,
        path=_HERE,
        values={"error_queue": error_queue},
    )
    return show(
        request,
        "imports.html",
        current=_HERE,
        listing=listing,
        queues=sorted(
            {
                *(each for each in parts.error_queues if _is_seen(parts, each)),
                *(each.error_queue for each in found.items),
            }
        ),
        error_queue=error_queue,
        in_all=count_imports(parts.db),
    )


_TRY = "/imports/try"
MOST_TRIED = 200
"""Failed imports that are tried at once: as many as one act on some of them takes."""
_LONGEST_FORMATS = 64 * 1024
EXAMPLE = """\
dialects:
  - name: ours
    when: {header: X-Error}
    queue: header:X-Origin
    message: header:X-Error
"""
"""What stands in the form before somebody has written formats."""


@router.get("/try")
def ask_trial(request: Request, parts: Parts, error_queue: str = "", dialect: str = "") -> Response:
    """Show what the newest failed imports would be by the formats that there are, or as one of them."""
    known = parts.gateway.imports.dialects
    chosen = dialect if dialect in known else ""
    return _show_trial(request, parts, error_queue, Trial(dialect=chosen or None))


@router.post("/try")
def try_formats(request: Request, parts: Parts, form: SentForm) -> Response:
    """Show what they would be by formats that the settings might have. Nothing is changed."""
    text = form.exactly("formats")
    if len(text) > _LONGEST_FORMATS:
        raise HTTPException(413, f"Formats have at most {_LONGEST_FORMATS:,} characters here.")
    section = text.replace("\r\n", "\n")
    return _show_trial(request, parts, form.exactly("error_queue"), Trial(section=section))


def _show_trial(request: Request, parts: PageParts, error_queue: str, trial: Trial) -> Response:
    found = load_imports(parts.db, ImportSelection(error_queue=error_queue or None), MOST_TRIED)
    wrong: Sequence[str] = ()
    tried: Sequence[Told] = ()
    try:
        tried = parts.try_messages([each.message for each in found.items], trial)
    except ConfigurationError as error:
        wrong = error.problems
    rows = [(each.import_id, facts) for each, facts in zip(found.items, tried, strict=not wrong)]
    is_in_force = trial.section is None
    return show(
        request,
        "imports_try.html",
        current=_HERE,
        status=422 if wrong else 200,
        rows=rows[:PAGE],
        tried=len(rows),
        total=found.total,
        wrong=wrong,
        error_queue=error_queue,
        queues=[each for each in parts.error_queues if _is_seen(parts, each)],
        dialect=trial.dialect or "",
        dialects=parts.gateway.imports.dialects,
        text=EXAMPLE if is_in_force else trial.section,
        is_in_force=is_in_force,
        ready=[key for key, facts in rows if facts["becomes"] != "failed import"],
    )


@router.get("/selected", dependencies=[IN_FULL])
def ask(
    request: Request,
    parts: Parts,
    query: Annotated[ImportQuery, Depends()],
    act: str = "",
    back: str = _HERE,
) -> Response:
    """Show how many an act is about, and the form that does it."""
    if act not in list(ImportAct):
        raise HTTPException(400, f"Nothing is called {act[:100]} here.")
    chosen, back = choose(parts.db, act, query), local(back, _HERE)
    if not chosen.ids:
        return see_other(f"{_HERE}?done=nothing")
    button, note = _QUESTIONS[ImportAct(act)]
    at_once = chosen.total if act == ImportAct.AGAIN else len(chosen.ids)
    # So many at once are looked up one by one; of more, both is asked without a look.
    is_known = len(chosen.ids) <= PAGE
    found = [find_send(parts.db, each) for each in chosen.ids] if is_known else []
    sends = [each for each in found if each is not None]
    return show(
        request,
        "import_question.html",
        current=_HERE,
        act=act,
        button=button.format(plural(at_once, "failed import")),
        note=note,
        error_queue=chosen.error_queue,
        dialect=chosen.dialect if act == ImportAct.AGAIN else "",
        at_once=at_once,
        total=chosen.total,
        fields=chosen.fields,
        back=back,
        is_unknown=not is_known,
        in_doubt=sum(each.send is not None for each in sends),
        only_confirm=sum(each.only_confirms for each in sends),
    )


@router.post("/selected/{act}")
def do(request: Request, act: ImportAct, parts: Parts, form: SentForm) -> Response:
    """Do it, and show what came of it. Done again, it finds them gone."""
    query = read_choice(form)
    plan = form.plan(hash_words(act, query.error_queue)) if query.everything else None
    chosen = choose(parts.db, act, query, plan)
    if not chosen.ids:
        return see_other(f"{_HERE}?done=nothing")
    result = _do(parts, act, chosen, form)
    is_bounded = chosen.everything and act is not ImportAct.AGAIN
    # One that is gone has no page any more.
    is_gone = result.done and not chosen.everything and len(chosen.ids) == 1
    return show(
        request,
        "import_result.html",
        current=_HERE,
        result=result,
        more=chosen.total - len(chosen.ids) if is_bounded else 0,
        back=_HERE if is_gone else form.back(_HERE),
    )


@router.get("/{import_id}")
def get_import(request: Request, import_id: str, parts: Parts) -> Response:
    """Show one failed import: why it is one, what can be read of it, and its bytes."""
    found = find_import(parts.db, import_id, parts.codec)
    if found is None:
        raise _unknown(parts, import_id)
    if not parts.shows_content:
        found = replace(found, headers=parts.headers(found.headers), raw=b"", body=b"")
    send_of, headers = find_send(parts.db, import_id), _pairs(found.headers)
    raw_size = found.listed.properties_size
    return show(
        request,
        "import.html",
        current=_HERE,
        found=found,
        headers=headers[:MOST_HEADERS],
        headers_left_out=max(0, len(headers) - MOST_HEADERS),
        properties=_pairs(found.fields),
        body=show_body(
            found.body, found.listed.body_size, packed=packed_as(found.fields, found.headers)
        )
        if parts.shows_content
        else hide_body(found.listed.body_size),
        raw=show_body(found.raw, raw_size, "hex") if found.unreadable else None,
        only_confirms=send_of is not None and send_of.only_confirms,
    )


@router.get("/{import_id}/body")
def get_import_body(import_id: str, parts: Parts) -> Response:
    """Return its body as it came, as a file."""
    body = find_import_body(parts.db, import_id)
    if body is None:
        raise _unknown(parts, import_id)
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="import-{import_id[:8]}.bin"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(body, headers=headers, media_type="application/octet-stream")


def _do(parts: PageParts, act: ImportAct, chosen: ChosenImports, form: Form) -> ImportResult:
    imports, who = parts.gateway.imports, form.requested_by
    match act:
        case ImportAct.AGAIN:
            return read_again(
                _reading_as(imports, form.text("destination"), chosen.dialect),
                chosen.ids,
                who,
                error_queue=chosen.error_queue,
                all_up_to=chosen.counted_to,
            )
        case ImportAct.SEND:
            to = form.text("to")
            if not to:
                raise HTTPException(400, _NO_QUEUE)
            return send(
                imports,
                chosen.ids,
                to,
                who,
                again=bool(form.text("in_doubt")),
                confirmation=bool(form.text("confirmation")),
            )
        case ImportAct.DELETE:
            return delete(imports, chosen.ids, who)


def _reading_as(imports: FailedImports, destination: str, dialect: str) -> FailedImports:
    reading = imports.reading_as(destination or None, dialect or None)
    match reading:
        case WrongQueue(reason):
            raise HTTPException(400, f"Nothing can be sent there: {reason}.")
        case WrongDialect(reason):
            raise HTTPException(400, f"No format has that name: {reason}.")
        case _:
            return reading


def _unknown(parts: PageParts, import_id: str) -> HTTPException:
    """Return 404, with what became of it if that is known."""
    former = find_former_import(parts.db, import_id)
    if former is None:
        return HTTPException(404, f"No failed import has the id {import_id[:100]}.")
    return HTTPException(404, f"{former.text} By {former.who}.")
