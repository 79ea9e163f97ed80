"""Failed imports: listed, shown, read again, sent to a queue as they came, deleted."""

from base64 import b64encode
from codecs import getincrementaldecoder
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Any, assert_never, cast

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from retrier.api.answers import (
    HEADERS,
    Answer,
    Refusal,
    Routes,
    accepted,
    answer,
    later,
    present,
    problem,
    revalidated,
    time,
    told,
)
from retrier.api.parts import ApiParts, Parts
from retrier.api.places import AfterQuery, Followed, ListOrder, follow, read_id, read_time
from retrier.api.requests import (
    DIRECTION,
    UNPACKED,
    IdsQuery,
    InContext,
    Line,
    PageQuery,
    UnpackedWanted,
)
from retrier.api.selections import PlanQuery, named_plan, refuse_plan
from retrier.api.shapes import PlannedTotal, ReasonCount, camel
from retrier.api.shapes import service as shapes
from retrier.domain.failed_imports import (
    Became,
    Doubtful,
    ImportRefusal,
    NotTaken,
    NotTried,
    ReadAgain,
    Send,
    SendOutcome,
    Sent,
    Trial,
    WrongDialect,
    WrongQueue,
)
from retrier.domain.retry_operation import OF_ANOTHER, READ_AGAIN, hash_words
from retrier.domain.text import jsonable
from retrier.domain.wire import packed_as, unpack
from retrier.errors import ConfigurationError
from retrier.store.imports import (
    ImportDetails,
    ImportSelection,
    ListedImport,
    find_import,
    find_import_body,
    list_imports,
    load_imports,
    plan_imports,
)
from retrier.store.message_history import find_former_import

_MOST_REASONS = 50
_OTHER_REASONS = "other reasons"


def item(shown: ListedImport) -> shapes.Import:
    """Show an import as lists do."""
    view: shapes.Import = {
        "id": shown.import_id,
        "error_queue": shown.error_queue,
        "reason": shown.reason,
        "received_at": time(shown.received_at),
        "state": camel(shown.state),
        "properties_size": shown.properties_size,
        "body_size": shown.body_size,
        "send": _send(shown.send) if shown.send else None,
    }
    return present(view)


def details(found: ImportDetails) -> shapes.ImportDetails:
    """Show an import with what can be read of it, and the beginnings of its bytes."""
    listed = found.listed
    view: shapes.ImportDetails = {
        **item(listed),
        "unreadable": found.unreadable,
        "properties": jsonable(found.fields),
        "headers": jsonable(found.headers),
        "raw_properties": {
            "encoding": "base64",
            "content": b64encode(found.raw).decode(),
            "is_whole": len(found.raw) == listed.properties_size,
        },
        "body": _bytes(found.body, is_whole=len(found.body) == listed.body_size),
        "body_url": f"/imports/{listed.import_id}/body",
    }
    return present(view)


def read_again(came_to: ReadAgain) -> shapes.ReadAgain:
    """Show how many became what, and why the others did not; one failed message is named."""
    became, named = came_to.became, came_to.message_ids
    view: shapes.ReadAgain = {
        "reimported": sum(became.values()),
        "failed_message": became[Became.FAILED_MESSAGE],
        "stored_before": became[Became.STORED_BEFORE],
        "confirmation": became[Became.CONFIRMATION],
        "own_copy": became[Became.OWN_COPY],
        "failed_message_id": named[0] if len(named) == 1 else None,
        "kept": _reasons(came_to),
        "skipped": [
            {"reason": str(reason), "count": number} for reason, number in came_to.refused.items()
        ],
    }
    return present(view)


def _reasons(came_to: ReadAgain) -> list[ReasonCount]:
    """Reasons may quote sizes and places: of many different ones only the most frequent are told."""
    most = came_to.kept.most_common(_MOST_REASONS)
    rest = came_to.kept.total() - sum(number for _, number in most)
    told = [*most, (_OTHER_REASONS, rest)] if rest else most
    return [{"reason": reason, "count": number} for reason, number in told]


def _send(send: Send) -> shapes.ImportSend:
    return {"to": send.to, "since": time(send.since), "requested_by": send.requested_by}


def _bytes(data: bytes, *, is_whole: bool) -> shapes.ShownBytes:
    """Show bytes as text if they are UTF-8, else in base64; the last sign may be cut in two."""
    try:
        text = getincrementaldecoder("utf-8")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        return {
            "encoding": "base64",
            "content": b64encode(data).decode(),
            "is_whole": is_whole,
        }
    return {"encoding": "utf-8", "content": text, "is_whole": is_whole}


router = Routes(prefix="/api/imports", tags=["failed imports"])

_QUEUE = Annotated[str, Query(description="the error queue they came from")]
_DESTINATION = Annotated[
    str, Query(description="where their retries go, as if their error queue had this destination")
]
_DIALECT = Annotated[str, Query(description="the format to read them as, whatever they say")]
MOST_TRIED = 1000
"""Failed imports that one request tries."""
_GONE = "It is no failed import any more: there is nothing left to do here."
_BLANK = "The body must contain `to`, the name of a queue."
_ANOTHER = "Name another queue."
_MAKE_QUEUE = "Make the queue and send it again, or name another queue."
_REFUSED = (
    "If it is the queue that was refused, make room in it and send it again, or name another one. If "
    "it is the message, no queue of this broker takes it: get its bytes, send them in another way, "
    "and delete the import."
)
_LOOK_FIRST = (
    "It is in doubt now. Look whether it arrived on that queue: if it did, delete the import; if "
    "it did not, send it once more with `again`."
)


class NewSend(BaseModel):
    """What POST takes; `again` sends one in doubt, `confirmation` one that only confirms."""

    to: str = ""
    again: bool = False
    confirmation: bool = False


class TrialBody(BaseModel):
    """What POST try takes: which imports, one format to read them as, formats as settings have them."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Line] = []
    error_queue: Line = ""
    dialect: Line = ""
    dialects: list[dict[str, Any]] | None = None


def _wanted(
    ids: IdsQuery,
    error_queue: _QUEUE = "",
    direction: Annotated[str, Query(description="desc: the newest first"), DIRECTION] = "",
) -> ImportSelection:
    return ImportSelection(error_queue=error_queue or None, ids=ids, ascending=direction == "asc")


WantedImports = Annotated[ImportSelection, Depends(_wanted)]


def _page(wanted: WantedImports, page: PageQuery, after: AfterQuery = "") -> Followed:
    keys = (read_time, read_id)
    order = ListOrder(name="imports", descending=not wanted.ascending, keys=keys)
    return follow(page, after, order)


@router.head("")
@router.get("")
def get_imports(
    request: Request,
    parts: Parts,
    wanted: WantedImports,
    page: Annotated[Followed, Depends(_page)],
) -> Answer[list[shapes.Import]]:
    """List failed imports, the newest first unless `direction` says otherwise."""
    found = list_imports(parts.db, wanted, page.wanted)
    items = [item(each) for each in found.items]
    return answer(request, items, page.headers(request, found))


@router.get("/{import_id}")
def get_import(
    request: Request, import_id: str, parts: Parts
) -> Answer[shapes.ImportDetails] | Refusal:
    """Return one failed import: reason, headers and properties as far as they can be read, bytes."""
    found = find_import(parts.db, import_id, parts.codec)
    if found is None:
        return _unknown(parts, import_id)
    if not parts.shows_content:
        found = replace(found, headers=parts.headers(found.headers), raw=b"", body=b"")
    return answer(request, details(found))


@router.get("/{import_id}/body")
def get_import_body(
    request: Request, import_id: str, parts: Parts, *, unpacked: UnpackedWanted
) -> Answer[bytes] | Refusal:
    """Return its body as it came, or unpacked if `unpacked=yes` asks for it; 204 if it is empty."""
    body = find_import_body(parts.db, import_id)
    if body is None:
        return _unknown(parts, import_id)
    if not body:
        return Answer(status_code=204, headers=HEADERS)
    # No content type of its own: it is bytes that nobody has understood.
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    tag = sha256(body).hexdigest()
    if not unpacked:
        return revalidated(request, body, tag, headers)
    found = find_import(parts.db, import_id, parts.codec)
    packed = "" if found is None else packed_as(found.fields, found.headers)
    shown = unpack(body, len(body), packed)
    return revalidated(request, shown.content, f"{tag}-unpacked", {**headers, UNPACKED: shown.note})


@router.post("/retry", status_code=202)
def retry_imports(
    parts: Parts,
    context: InContext,
    error_queue: _QUEUE = "",
    destination: _DESTINATION = "",
    dialect: _DIALECT = "",
    plan: PlanQuery = None,
) -> Answer[shapes.ReadAgain] | Refusal:
    """Read all failed imports again with the settings of today, or those of an error queue."""
    counted = named_plan(plan)
    if counted is not None and counted.subject != hash_words(READ_AGAIN, error_queue):
        return refuse_plan(OF_ANOTHER, _look_at_all(parts, error_queue))
    imports = context.gateway.imports.reading_as(destination.strip() or None, dialect or None)
    if isinstance(imports, WrongQueue | WrongDialect):
        return _wrong(imports)
    counted_to = None if counted is None else counted.counted_to
    came_to = imports.read_all_again(error_queue or None, context.requested_by, counted_to)
    return accepted(read_again(came_to))


@router.post("/retry/preview", status_code=200)
def preview_retry_imports(parts: Parts, error_queue: _QUEUE = "") -> Answer[PlannedTotal]:
    """Count which failed imports the same request would read again."""
    return told(_look_at_all(parts, error_queue))


@router.post("/try", status_code=200)
def try_imports(body: TrialBody, parts: Parts) -> Answer[shapes.TriedImports] | Refusal:
    """Tell what failed imports would be by a format, or by formats that the settings might have; nothing is changed."""
    known = parts.gateway.imports.reading_as(None, body.dialect or None)
    if isinstance(known, WrongDialect) and body.dialects is None:
        return _wrong(known)
    wanted = ImportSelection(error_queue=body.error_queue or None)
    found = load_imports(parts.db, wanted, MOST_TRIED, body.ids[:MOST_TRIED])
    trial = Trial(dialect=body.dialect or None, section=body.dialects)
    try:
        tried = parts.try_messages([each.message for each in found.items], trial)
    except ConfigurationError as error:
        detail = f"The formats are wrong: {'; '.join(error.problems)}."
        return problem(422, detail)
    messages = [
        cast(shapes.TriedImport, {"id": each.import_id, **facts})
        for each, facts in zip(found.items, tried, strict=True)
    ]
    return told({"total": found.total, "messages": messages})


def _look_at_all(parts: ApiParts, error_queue: str) -> PlannedTotal:
    plan = plan_imports(parts.db, READ_AGAIN, error_queue or None)
    return {"total": plan.total, "plan": plan.token}


@router.post("/{import_id}/retry", status_code=202)
def retry_import(
    import_id: str,
    parts: Parts,
    context: InContext,
    destination: _DESTINATION = "",
    dialect: _DIALECT = "",
) -> Answer[shapes.ReadAgain] | Refusal:
    """Read one failed import again with the settings of today."""
    imports = context.gateway.imports.reading_as(destination.strip() or None, dialect or None)
    if isinstance(imports, WrongQueue | WrongDialect):
        return _wrong(imports)
    came_to = imports.read_again(import_id, context.requested_by)
    for refusal in came_to.refused:
        return _refused(parts, refusal, import_id)
    return accepted(read_again(came_to))


@router.post("/{import_id}/send", status_code=202)
def send_import(
    import_id: str, body: NewSend, parts: Parts, context: InContext
) -> Answer[shapes.SentImport] | Refusal:
    """Send one failed import to a queue as it came."""
    to = body.to.strip()
    if not to:
        return problem(400, _BLANK)
    imports, who = context.gateway.imports, context.requested_by
    options = {"again": body.again, "confirmation": body.confirmation}
    sent = imports.send(import_id, to, who, **options)
    match sent:
        case WrongQueue():
            return _wrong(sent)
        case ImportRefusal():
            return _refused(parts, sent, import_id)
        case _:
            return _outcome(sent, to)


@router.delete("/{import_id}", status_code=204)
def delete_import(import_id: str, parts: Parts, context: InContext) -> Response:
    """Delete one failed import for good."""
    refusal = context.gateway.imports.delete(import_id, context.requested_by)
    if refusal is not None:
        return _refused(parts, refusal, import_id)
    return Response(status_code=204, headers=HEADERS)


def _outcome(sent: SendOutcome, to: str) -> Answer[shapes.SentImport] | Refusal:
    match sent:
        case Sent():
            return accepted({"sent_to": to})
        case NotTaken(reason, no_queue):
            advice = _MAKE_QUEUE if no_queue else _REFUSED
            return problem(409, f"It was not sent and is kept: {reason}.", advice=advice)
        case NotTried(reason):
            return later(problem(503, f"It was not sent and is kept: {reason}."))
        case Doubtful(reason):
            detail = f"Nobody knows whether {to} has it: {reason}."
            return later(problem(503, detail, advice=_LOOK_FIRST))
        case _ as never:
            assert_never(never)


def _wrong(queue: WrongQueue | WrongDialect) -> Refusal:
    if isinstance(queue, WrongDialect):
        return problem(400, f"No format has that name: {queue.reason}.")
    return problem(400, f"Nothing can be sent there: {queue.reason}.", advice=_ANOTHER)


def _refused(parts: ApiParts, refusal: ImportRefusal, import_id: str) -> Refusal:
    if refusal is ImportRefusal.UNKNOWN:
        return _unknown(parts, import_id)
    return problem(409, f"The failed import is left as it is: {refusal}.")


def _unknown(parts: ApiParts, import_id: str) -> Refusal:
    """Answer 404, with what became of it if that is known: most who ask have just done it."""
    former = find_former_import(parts.db, import_id)
    if former is None:
        return problem(404, f"No failed import has the id {import_id[:100]}.")
    message_id = former.unique_message_id
    detail = f"{former.text} By {former.who}, {time(former.at)}."
    if message_id is None:
        return problem(404, detail, advice=_GONE)
    detail = f"{detail} The id of the message is {message_id}."
    return problem(404, detail, advice=_GONE, failed_message_id=message_id)
