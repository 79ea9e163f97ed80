"""What the operator's page shows and answers: each address, and each form."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape

from retrier.web.application import FREE, LIVE, WORKING
from tests.golden.asked import begun, filled, route_of, shown
from tests.golden.story import Known
from tests.golden.world import World
from tests.support.web import forms_of

EVENTS = "/events/page"
"""Its answer does not end: the beginning is recorded."""
STATIC = "/static/{name}"
_TITLE, _PERSON = r"<title>.*?</title>", r'/name\?next=[^"]*'
_OWN = re.compile(rf'{_TITLE}| aria-current="page"|{_PERSON}', re.DOTALL)
_MARKS = re.compile(rf'{_TITLE}|href="[^"]*" aria-current="page"|{_PERSON}', re.DOTALL)
ORIGIN = {"Origin": "http://localhost"}


@dataclass(frozen=True, slots=True)
class Form:
    """A form: where it is sent to, the page on which it is found, and what a person types.

    Without a page it is sent with these fields alone.
    """

    action: str
    page: str | None = None
    typed: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=lambda: ORIGIN)


PAGES = [
    "/",
    "/groups",
    "/groups?classifier=Message%20Type",
    "/groups?classifier=Colour",
    "/groups/hosts",
    "/groups/fields/{field_name:order}",
    "/groups/fields/{field_name:nobody}",
    "/groups/{group_id:group}/retry",
    "/groups/{group_id:nobody}/retry",
    "/groups/{group_id:group}/comment",
    "/groups/{group_id:nobody}/comment",
    "/groups/{group_id:group}/archive",
    "/messages",
    "/messages?status=archived",
    "/messages?queue=payments&sort=modified&direction=asc",
    "/messages?text=nothing%20like%20this",
    "/messages?status=nonsense",
    "/messages?colour=red",
    "/messages?field.order=4711",
    "/messages?done=retry:{:operation}",
    "/messages/selected",
    "/messages/selected?id={:order-2}&id={:order-6}&act=retry",
    "/messages/selected?all=1&act=archive",
    "/messages/selected?id={:order-4}&act=unarchive",
    "/messages/selected?id={:order-2}&act=resolve",
    "/messages/selected?id={:order-3}&act=again",
    "/messages/selected?id={:order-2}&act=burn",
    *(
        f"/messages/{{unique_id:{name}}}"
        for name in (
            *("order-1", "order-2", "order-3", "order-4", "order-5", "order-6", "step-11"),
            *("dead-by-policy", "scheduled", "payment-13", "hostile", "empty", "5f2a", "nobody"),
        )
    ),
    "/messages/{unique_id:order-2}?attempt=1",
    "/messages/{unique_id:order-2}/bytes",
    "/messages/{unique_id:hostile}/bytes",
    "/messages/{unique_id:hostile}/body",
    "/messages/{unique_id:nobody}/body",
    "/messages/{unique_id:order-2}/retry",
    "/messages/{unique_id:order-1}/retry",
    "/messages/{unique_id:nobody}/retry",
    "/messages/{unique_id:order-3}/again",
    "/messages/{unique_id:order-3}/resolve",
    "/messages/{unique_id:step-11}/dead",
    "/messages/{unique_id:nobody}/dead",
    "/messages/{unique_id:order-2}/edit",
    "/messages/{unique_id:hostile}/edit",
    "/messages/{unique_id:nobody}/edit",
    "/messages/{unique_id:order-2}/edits/{edit_id:nobody}/body",
    "/archive_operations",
    "/archive_operations/{operation_id:archiving}",
    "/archive_operations/{operation_id:nobody}",
    "/operations",
    "/operations?page=nonsense",
    *(
        f"/operations/{{operation_id:{name}}}"
        for name in ("operation", "later", "canary", "paused", "alive", "nobody")
    ),
    "/operations/{operation_id:00000000-0000-0000-0000-000000000001}",
    "/operations/{operation_id:operation}/outcomes",
    "/operations/{operation_id:later}/cancel",
    "/operations/{operation_id:nobody}/cancel",
    "/archived",
    "/archived?queue=nothing",
    "/archived/unarchive",
    "/archived/unarchive?queue=orders",
    "/pending",
    "/pending?queue=orders",
    "/pending/retry?all=1",
    "/pending/retry?id={:order-3}",
    "/pending/retry",
    "/pending/resolve?all=1",
    "/history",
    "/events",
    "/events?kind=retry_asked",
    "/events?kind=nonsense",
    "/processor",
    "/processor/ledger",
    "/imports",
    "/imports?error_queue=nothing",
    "/imports/try",
    "/imports/try?error_queue=error&dialect=rebus",
    "/imports/selected?id={:import-1}&act=again",
    "/imports/selected?all=1&act=again",
    "/imports/selected?id={:import-1}&act=send",
    "/imports/selected?id={:import-1}&act=delete",
    "/imports/selected?id={:import-1}&act=burn",
    "/imports/{import_id:import-0}",
    "/imports/{import_id:import-3}",
    "/imports/{import_id:nobody}",
    "/imports/{import_id:import-3}/body",
    "/policies",
    "/redirects",
    "/redirects/{redirect_id:redirect}",
    "/redirects/{redirect_id:nobody}",
    "/redirects/{redirect_id:redirect}/delete",
    "/approvals",
    "/tokens",
    "/tokens/{name:nobody}/revoke",
    "/breakers",
    "/breakers/open?breaker=orders",
    "/breakers/open",
    "/breakers/close?breaker=payments",
    "/streams",
    "/streams?queue=orders&held=1",
    "/streams/one?queue=orders&stream=order%2042",
    "/streams/one?queue=orders&stream=nothing",
    "/streams/release?queue=orders&stream=order%2042&all=1",
    "/streams/release?queue=orders&stream=order%2042&id={:step-11}",
    "/views",
    "/views/{name:nothing}",
    "/views/{name:nothing}/delete",
    "/save-view?view=messages&query=queue%3Dorders",
    "/save-view?view=nowhere",
    "/retry",
    "/name",
    "/name?next=//elsewhere.example",
    "/search?q=orders",
    "/search?q=nothing+like+this",
    "/search/suggestions",
    "/nothing",
]

FILES = ("page.css", "page.js", "htmx.min.js", "icon.svg", "nothing.js")

WRONG_POLICIES = {"policies": "rules: [{match: {}}]", "since": "7d"}
POLICIES = {"policies": "default: dead", "since": "7d"}
ORDER_2, ORDER_3 = "/messages/{unique_id:order-2}", "/messages/{unique_id:order-3}"
LATER = "/operations/{operation_id:later}"
REDIRECT = "/redirects/{redirect_id:redirect}"
GROUP = "/groups/{group_id:group}"
CHOSEN = "/messages/selected?id={:payment-17}&act="
IMPORTS = "/imports/selected?id={:import-"
STREAM = "/streams/release?queue=orders&stream=order%2042&id={:step-11}"

EDIT = "/messages/{unique_id:step-10}/edit"
CHANGED = {"header": "Shop.Tenant", "value": "south"}
LOOKED = sha256(b"header\1Shop.Tenant\0value\1south").hexdigest()
"""What the editor's form says of that, when it was shown what differs."""
FORMATS = "dialects: [{name: ours, when: {header: Shop.Tenant}, queue: 'header:Shop.Tenant'}]"
TOKEN = {"name": "deploy", "role": "operator", "queues": "orders*", "expires": "90d"}

FORMS = [
    Form("/retry", origin={"Origin": "http://elsewhere.example"}),
    Form("/retry", origin={}),
    Form("/retry"),
    Form("/retry", "/retry", {"rate": "fast"}),
    Form("/retry", "/retry", {"drop_headers": "Retrier.RetryId"}),
    Form("/retry", "/retry", {"plan": "nonsense"}),
    Form(
        "/retry", "/retry", {"patch": '{"headers": {"set": {"Shop.Region": "<eu>"}}}', "rate": "5"}
    ),
    Form("/retry", "/retry", {"patch": '{"headers": {}}'}),
    Form("/policies/simulate", typed=POLICIES),
    Form("/policies/simulate", typed=WRONG_POLICIES),
    Form(f"{ORDER_2}/retry", f"{ORDER_2}/retry", {"destination": "error"}),
    Form(f"{ORDER_2}/retry", f"{ORDER_2}/retry", {"why": "now", "rate": "5"}),
    Form("/messages/{unique_id:order-1}/retry", typed={"key": "1"}),
    Form("/messages/{unique_id:nobody}/retry", typed={"key": "2"}),
    Form("/messages/{unique_id:hostile}/revive", "/messages/{unique_id:hostile}"),
    Form("/messages/{unique_id:order-6}/revive", typed={"key": "3"}),
    Form("/messages/{unique_id:step-11}/dead", "/messages/{unique_id:step-11}/dead"),
    Form(
        "/messages/{unique_id:step-11}/dead",
        "/messages/{unique_id:step-11}/dead",
        {"why": "it has no end"},
    ),
    Form(f"{ORDER_3}/again", f"{ORDER_3}/again", {"why": "it was lost"}),
    Form(f"{ORDER_3}/resolve", typed={"key": "4"}),
    Form(f"{ORDER_3}/archive", typed={"key": "5"}),
    Form("/messages/{unique_id:order-4}/unarchive", "/messages/{unique_id:order-4}"),
    Form("/messages/{unique_id:order-4}/archive", "/messages/{unique_id:order-4}"),
    Form("/messages/{unique_id:nobody}/archive", typed={"key": "6"}),
    Form("/messages/retry", f"{CHOSEN}retry"),
    Form("/messages/retry", typed={"key": "7"}),
    Form("/messages/again", "/messages/selected?id={:order-3}&act=again"),
    Form("/messages/{act:archive}", f"{CHOSEN}archive"),
    Form("/messages/{act:resolve}", typed={"key": "8"}),
    Form("/messages/{act:burn}", typed={"key": "9"}),
    Form(f"{GROUP}/comment", f"{GROUP}/comment", {"comment": "ask <the> warehouse & wait"}),
    Form(f"{GROUP}/comment", f"{GROUP}/comment", {"comment": ""}),
    Form("/groups/{group_id:nobody}/comment", typed={"key": "10", "comment": "x"}),
    Form(f"{GROUP}/comment/delete", f"{GROUP}/comment"),
    Form(f"{GROUP}/retry", f"{GROUP}/retry"),
    Form("/groups/{group_id:group-0}/archive", "/groups/{group_id:group-0}/archive"),
    Form(f"{GROUP}/dismiss", typed={"key": "11"}),
    Form("/archive_operations/{operation_id:archiving}/undo", "/archive_operations"),
    Form("/archive_operations/{operation_id:resolving}/undo", typed={"key": "12"}),
    Form("/archive_operations/{operation_id:nobody}/undo", typed={"key": "13"}),
    Form(f"{LATER}/pause", LATER),
    Form(f"{LATER}/resume", LATER),
    Form(f"{LATER}/rate", LATER, {"rate": "7"}),
    Form(f"{LATER}/rate", LATER, {"rate": "fast"}),
    Form(f"{LATER}/cancel", f"{LATER}/cancel"),
    Form("/operations/{operation_id:operation}/cancel", typed={"key": "14"}),
    Form("/operations/{operation_id:nobody}/pause", typed={"key": "15"}),
    Form("/operations/{operation_id:operation}/acknowledge", typed={"key": "16"}),
    Form("/archived/unarchive", "/archived/unarchive?queue=orders"),
    Form("/archived/unarchive", typed={"key": "17"}),
    Form("/pending/retry", "/pending/retry?all=1"),
    Form("/pending/retry", typed={"key": "18"}),
    Form("/pending/resolve", "/pending/resolve?all=1", {"why": "they were done"}),
    Form("/pending/recovery/end", typed={"key": "19"}),
    Form("/imports/selected/{act:again}", f"{IMPORTS}1}}&act=again", {"destination": "orders"}),
    Form("/imports/selected/{act:again}", f"{IMPORTS}0}}&act=again", {"destination": "error"}),
    Form("/imports/selected/{act:send}", f"{IMPORTS}2}}&act=send", {"to": "orders"}),
    Form("/imports/selected/{act:send}", f"{IMPORTS}3}}&act=send", {"to": "nowhere"}),
    Form("/imports/selected/{act:delete}", f"{IMPORTS}3}}&act=delete"),
    Form("/imports/selected/{act:burn}", typed={"key": "20"}),
    Form("/redirects", "/redirects", {"from": "a", "to": "b"}),
    Form("/redirects", "/redirects", {"from": "a", "to": "c"}),
    Form("/redirects", "/redirects", {"from": "b", "to": "error"}),
    Form("/redirects", "/redirects", {"from": "invoices", "to": "new", "pending": "1"}),
    Form(REDIRECT, REDIRECT, {"to": "newer"}),
    Form(REDIRECT, REDIRECT, {"to": ""}),
    Form("/redirects/{redirect_id:nobody}", typed={"key": "21", "to": "x"}),
    Form(f"{REDIRECT}/delete", f"{REDIRECT}/delete"),
    Form(
        "/breakers/open",
        "/breakers/open?breaker=orders",
        {"for": "2", "unit": "h", "why": "it is moved"},
    ),
    Form("/breakers/open", "/breakers/open?breaker=orders", {"for": "999", "unit": "d"}),
    Form("/breakers/close", "/breakers/close?breaker=payments"),
    Form("/breakers/close", typed={"key": "22"}),
    Form("/streams/release", STREAM),
    Form("/streams/release", typed={"key": "23", "queue": "orders", "stream": "nothing"}),
    Form("/save-view", "/save-view?view=messages&query=queue%3Dorders", {"name": "night"}),
    Form("/save-view", "/save-view?view=messages&query=queue%3Dother", {"name": "night"}),
    Form("/save-view", typed={"key": "24", "name": "", "view": "messages", "query": "queue=a"}),
    Form("/views/{name:night}/delete", "/views/{name:night}/delete"),
    Form("/imports/try", typed={"error_queue": "error", "formats": FORMATS}),
    Form("/imports/try", typed={"formats": "dialects: [{name: ours}]"}),
    Form("/operations/{operation_id:operation}/approve", typed={"key": "25"}),
    Form("/operations/{operation_id:nobody}/approve", typed={"key": "26"}),
    Form("/operations/{operation_id:operation}/refuse", typed={"key": "27"}),
    Form("/operations/{operation_id:nobody}/refuse", typed={"key": "28"}),
    Form("/tokens", "/tokens", TOKEN),
    Form("/tokens", "/tokens", TOKEN),
    Form("/tokens", "/tokens", {"name": "night", "role": "king"}),
    Form("/tokens", "/tokens", {"name": "no name", "role": "reader"}),
    Form("/tokens", "/tokens", {"name": "night", "role": "reader", "expires": "soon"}),
    Form("/tokens/{name:nobody}/revoke", typed={"key": "29"}),
    Form(EDIT, typed={"key": "30", **CHANGED, "do": "look"}),
    Form(EDIT, typed={"key": "31", **CHANGED, "do": "send", "looked": "another"}),
    Form(EDIT, typed={"key": "32", **CHANGED, "do": "send", "looked": LOOKED, "why": "moved"}),
    Form(EDIT, typed={"key": "33", **CHANGED, "do": "look"}),
    Form("/messages/{unique_id:nobody}/edit", typed={"key": "34"}),
    Form("/retry", "/retry", {"why": "all of it"}),
    # The last one: from then on the person has a name.
    Form("/name", "/name", {"name": "Süd"}),
]


def recorded(world: World, known: Known) -> dict[str, str]:
    """Look at every page, and send every form; return the answers by what was asked."""
    world.page.counts.tick()
    layout = _layout_of(shown(_get(world, "/")))
    found = {f"GET {each}": shown(_get(world, filled(each, known))) for each in PAGES}
    for name in FILES:
        answer = _get(world, f"/static/{name}")
        head = shown(answer).partition("\n\n")[0]
        digest = sha256(answer.content).hexdigest() if answer.is_success else answer.text
        found[f"GET /static/{name}"] = f"{head}\n\n{digest}"
    found[f"GET {EVENTS}"] = begun(world.faces, f"{EVENTS}?since=", {})
    for form in FORMS:
        title = " ".join(["POST", form.action, *(f"{n}={text}" for n, text in form.typed.items())])
        while title in found:
            title += " (again)"
        found[title] = _send(world, form, known)
    first = found.pop("GET /")
    return {"GET /": first, **{title: _short(text, layout) for title, text in found.items()}}


def routes(_world: World) -> set[str]:
    """Return every route of the page."""
    return {
        f"{method} {route_of(route.path)}"  # type: ignore[attr-defined] # all of them have paths
        for router in (*FREE, *LIVE, *WORKING)
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
    }


def recorded_routes() -> set[str]:
    """Return the routes that are asked for."""
    shown_pages = {f"GET {route_of(each)}" for each in PAGES}
    sent = {_route_of(form) for form in FORMS}
    return {*shown_pages, *sent, f"GET {EVENTS}", f"GET {STATIC}"}


def _layout_of(text: str) -> tuple[str, str]:
    """Return what is around a page: all but its title, and the place that is marked."""
    _, start, rest = text.partition("<meta charset")
    before, _, after = rest.partition("<main")
    _, _, end = after.partition("</main>")
    return _OWN.sub("", start + before), _OWN.sub("", end)


def _short(text: str, layout: tuple[str, str]) -> str:
    """Return a page without what is around every page; the first page is recorded with it."""
    own = _layout_of(text)
    if not own[0] or own != layout:
        return text
    start, end = text.index("<meta charset"), text.index("<main")
    last = text.index("</main>") + len("</main>")
    marks = "\n".join(_MARKS.findall(text[start:end] + text[last:]))
    return f"{text[:start]}(as every page, but:)\n{marks}\n{text[end:last]}\n(as every page)"


def _route_of(form: Form) -> str:
    return f"POST {route_of(form.action)}"


def _get(world: World, path: str):  # type: ignore[no-untyped-def]
    return world.http.get(path, follow_redirects=False)


def _send(world: World, form: Form, known: Known) -> str:
    world.clock.advance(1)
    action = filled(form.action, known)
    fields: dict[str, str] = {}
    if form.page is not None:
        html = _get(world, filled(form.page, known)).text
        found = forms_of(html)
        fields = dict(found.get(action, found.get(escape(action), {})))
        if not fields:
            return f"no such form on {form.page}"
    return shown(
        world.http.post(
            action, data={**fields, **form.typed}, headers=form.origin, follow_redirects=False
        )
    )
