"""Every page there is, by name. A new page is a line here: it is checked and pictured with all."""

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import httpx

Path = Callable[[httpx.Client], str]
"""Finds the path of a page on a service that has failed messages."""


def _of_group(http: httpx.Client) -> str:
    found = http.get("/api/recoverability/groups").json()
    return str(found[0]["id"])


def _of_message(http: httpx.Client) -> str:
    found = http.get("/api/errors", params={"per_page": 1, "text": "KeyError"}).json()
    return str((found or http.get("/api/errors").json())[0]["id"])


def _operation(http: httpx.Client, more: str = "") -> str:
    """Return the page of the newest operation; the list where there is none."""
    found = http.get("/api/operations").json()
    asked = [each["id"] for each in found if not each["id"].startswith("00000000")]
    return f"/operations/{asked[0]}{more}" if asked else "/operations"


def _archive_operation(http: httpx.Client) -> str:
    found = http.get("/api/archive_operations").json()
    return f"/archive_operations/{found[0]['id']}" if found else "/archive_operations"


def _first(http: httpx.Client, path: str, key: str = "id") -> str:
    return str(http.get(f"/api/{path}").json()[0][key])


def _of_redirect(http: httpx.Client) -> str:
    return f"/redirects/{_first(http, 'redirects', 'message_redirect_id')}"


def _stream(http: httpx.Client) -> str:
    found = http.get("/api/streams").json()[0]
    return f"/streams/one?{urlencode({'queue': found['queue'], 'stream': found['id']})}"


def _held(http: httpx.Client) -> str:
    found = http.get("/api/streams").json()[0]
    shown = http.get(f"/api/streams/{found['id']}", params={"queue": found["queue"]}).json()
    return str(shown["messages"][-1]["id"])


PAGES: Mapping[str, Path] = {
    "overview": lambda _http: "/",
    "overview-day": lambda _http: "/?span=day",
    "groups": lambda _http: "/groups",
    "groups-by-type": lambda _http: "/groups?by=type",
    "hosts": lambda _http: "/groups/hosts",
    "groups-by-field": lambda _http: "/groups/fields/endpoint",
    "groups-none": lambda _http: "/groups?text=unheard+of",
    "search": lambda http: f"/search?q={_of_message(http)[:1]}",
    "search-none": lambda _http: "/search?q=unheard+of",
    "retry-all": lambda _http: "/retry",
    "group-retry": lambda http: f"/groups/{_of_group(http)}/retry",
    "group-comment": lambda http: f"/groups/{_of_group(http)}/comment",
    "messages": lambda _http: "/messages",
    "messages-filtered": lambda http: f"/messages?group={_of_group(http)}&queue=orders&text=e",
    "messages-all": lambda _http: "/messages?status=all",
    "messages-none": lambda _http: "/messages?queue=nowhere",
    "messages-question": lambda _http: "/messages/selected?act=archive&all=1",
    "message": lambda http: f"/messages/{_of_message(http)}",
    "message-bytes": lambda http: f"/messages/{_of_message(http)}?body=hex",
    "message-more-bytes": lambda http: f"/messages/{_of_message(http)}/bytes",
    "message-retry": lambda http: f"/messages/{_of_message(http)}/retry",
    "message-dead": lambda http: f"/messages/{_of_message(http)}/dead",
    "message-edit": lambda http: f"/messages/{_of_message(http)}/edit",
    "operations": lambda _http: "/operations",
    "operation": _operation,
    "operation-cancel": lambda http: _operation(http, "/cancel"),
    "archive-operations": lambda _http: "/archive_operations",
    "archive-operation": _archive_operation,
    "history": lambda _http: "/history",
    "archived": lambda _http: "/archived",
    "archived-preview": lambda _http: "/archived/unarchive",
    "pending": lambda _http: "/pending",
    "pending-retry": lambda _http: "/pending/retry?all=yes",
    "pending-resolve": lambda _http: "/pending/resolve?all=yes",
    "events": lambda _http: "/events",
    "events-filtered": lambda _http: "/events?kind=retry_asked",
    "processor": lambda _http: "/processor",
    "ledger": lambda _http: "/processor/ledger",
    "imports": lambda _http: "/imports",
    "imports-none": lambda _http: "/imports?error_queue=nowhere",
    "imports-try": lambda _http: "/imports/try?dialect=rebus",
    "import": lambda http: f"/imports/{_first(http, 'imports')}",
    "imports-again": lambda _http: "/imports/selected?act=again&all=1",
    "imports-send": lambda _http: "/imports/selected?act=send&all=1",
    "views": lambda _http: "/views",
    "view-new": lambda _http: "/save-view?view=messages&query=queue%3Dorders",
    "view-delete": lambda http: f"/views/{_first(http, 'views', 'name')}/delete",
    "groups-new": lambda _http: "/groups?since=24h",
    "overview-week": lambda _http: "/?span=week",
    "group-archive": lambda http: f"/groups/{_of_group(http)}/archive",
    "redirects": lambda _http: "/redirects",
    "redirect": _of_redirect,
    "redirect-delete": lambda http: f"{_of_redirect(http)}/delete",
    "breakers": lambda _http: "/breakers",
    "breaker-open": lambda _http: "/breakers/open?breaker=orders",
    "streams": lambda _http: "/streams",
    "stream": _stream,
    "message-held": lambda http: f"/messages/{_held(http)}",
    "stream-release": lambda http: f"{_stream(http)}&all=1".replace("/one?", "/release?"),
    "breaker-close": lambda _http: "/breakers/close?breaker=bills",
    "policies": lambda _http: "/policies",
    "name": lambda _http: "/name",
    "tokens": lambda _http: "/tokens",
    "token-revoke": lambda _http: "/tokens/night-run/revoke",
    "approvals": lambda _http: "/approvals",
}
