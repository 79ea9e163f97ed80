"""Failed imports: listed, shown, read again, sent to a queue as they came, deleted."""

from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from retrier.domain.retry_operation import hash_words
from retrier.imports import FailedImports, WrongQueue
from retrier.store.queries.former_imports import find_former_import
from retrier.store.queries.imports import (
    ImportSelection,
    count_imports,
    find_import,
    find_import_body,
    find_send,
    list_imports,
)
from retrier.store.queries.ordering import PageRequest
from retrier.web.forms import Form, SentForm, local
from retrier.web.import_acts import Came, SendTerms, delete, read_again, send
from retrier.web.import_choice import Choice, ChoiceQuery, choose, read_choice
from retrier.web.parts import PageParts, Parts
from retrier.web.showing import HEADERS, see_other, show
from retrier.web.strays import IN_FULL
from retrier.web.views.imports import (
    ImportAct,
    ImportList,
    ImportQuestion,
    ImportResult,
    import_view,
)
from retrier.web.views.pages import PAGE, Listing, page_number
from retrier.web.wording import plural

router = APIRouter(prefix="/imports")

Chosen = Annotated[ChoiceQuery, Depends()]
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


@router.get("")
def get_imports(request: Request, parts: Parts, error_queue: str = "", page: str = "") -> Response:
    """List failed imports, the newest first."""
    wanted = PageRequest(number=page_number(page), size=PAGE)
    found = list_imports(parts.db, ImportSelection(error_queue=error_queue or None), wanted)
    listing = Listing(
        rows=found.items,
        total=found.total,
        number=wanted.number,
        path=_HERE,
        values={"error_queue": error_queue},
    )
    queues = {*parts.error_queues, *(each.error_queue for each in found.items)}
    view = ImportList(
        listing=listing,
        queues=sorted(queues),
        error_queue=error_queue,
        in_all=count_imports(parts.db),
    )
    return show(request, "imports.html", view, current=_HERE)


@router.get("/selected", dependencies=[IN_FULL])
def ask(
    request: Request, parts: Parts, query: Chosen, act: str = "", back: str = _HERE
) -> Response:
    """Show how many an act is about, and the form that does it."""
    if act not in list(ImportAct):
        raise HTTPException(400, f"Nothing is called {act[:100]} here.")
    chosen, back = choose(parts.db, act, query), local(back, _HERE)
    if not chosen.ids:
        return see_other(f"{_HERE}?done=nothing")
    view = _question(parts, ImportAct(act), chosen, back)
    return show(request, "import_question.html", view, current=_HERE)


@router.post("/selected/{act}")
def do(request: Request, act: ImportAct, parts: Parts, form: SentForm) -> Response:
    """Do it, and show what came of it. Done again, it finds them gone."""
    query = read_choice(form)
    plan = form.plan(hash_words(act, query.error_queue)) if query.everything else None
    chosen = choose(parts.db, act, query, plan)
    if not chosen.ids:
        return see_other(f"{_HERE}?done=nothing")
    came = _do(parts, act, chosen, form)
    is_bounded = chosen.everything and act is not ImportAct.AGAIN
    back = form.back(_HERE)
    result = ImportResult(
        came=came,
        more=chosen.total - len(chosen.ids) if is_bounded else 0,
        # One that is gone has no page any more.
        back=_HERE if came.done and not chosen.everything and len(chosen.ids) == 1 else back,
    )
    return show(request, "import_result.html", result, current=_HERE)


@router.get("/{import_id}")
def get_import(request: Request, import_id: str, parts: Parts) -> Response:
    """Show one failed import: why it is one, what can be read of it, and its bytes."""
    found = find_import(parts.db, import_id, parts.codec)
    if found is None:
        raise _unknown(parts, import_id)
    send_of = find_send(parts.db, import_id)
    view = import_view(found, only_confirms=send_of is not None and send_of.only_confirms)
    return show(request, "import.html", view, current=_HERE)


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


def _do(parts: PageParts, act: ImportAct, chosen: Choice, form: Form) -> Came:
    imports, who = parts.gateway.imports, form.requested_by
    match act:
        case ImportAct.AGAIN:
            return read_again(
                _going_to(imports, form.text("destination")),
                chosen.ids,
                who,
                error_queue=chosen.error_queue,
                all_up_to=chosen.counted_to,
            )
        case ImportAct.SEND:
            to = form.text("to")
            if not to:
                raise HTTPException(400, _NO_QUEUE)
            terms = SendTerms(
                to=to,
                again=bool(form.text("in_doubt")),
                confirmation=bool(form.text("confirmation")),
            )
            return send(imports, chosen.ids, terms, who)
        case ImportAct.DELETE:
            return delete(imports, chosen.ids, who)


def _going_to(imports: FailedImports, destination: str) -> FailedImports:
    going = imports.going_to(destination or None)
    if isinstance(going, WrongQueue):
        raise HTTPException(400, f"Nothing can be sent there: {going.reason}.")
    return going


def _question(parts: PageParts, act: ImportAct, chosen: Choice, back: str) -> ImportQuestion:
    button, note = _QUESTIONS[act]
    at_once = chosen.total if act is ImportAct.AGAIN else len(chosen.ids)
    # So many at once are looked at one by one; of more, both is asked without a look.
    is_known = len(chosen.ids) <= PAGE
    looked = [find_send(parts.db, each) for each in chosen.ids] if is_known else []
    sends = [each for each in looked if each is not None]
    return ImportQuestion(
        act=act,
        button=button.format(plural(at_once, "failed import")),
        note=note,
        error_queue=chosen.error_queue,
        at_once=at_once,
        total=chosen.total,
        fields=chosen.fields,
        back=back,
        is_unknown=not is_known,
        in_doubt=sum(each.send is not None for each in sends),
        only_confirm=sum(each.only_confirms for each in sends),
    )


def _unknown(parts: PageParts, import_id: str) -> HTTPException:
    """Return 404, with what became of it if that is known."""
    former = find_former_import(parts.db, import_id)
    if former is None:
        return HTTPException(404, f"No failed import has the id {import_id[:100]}.")
    return HTTPException(404, f"{former.text} By {former.who}.")
