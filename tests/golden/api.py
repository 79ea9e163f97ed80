"""What the API answers: each route, and each kind of refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.golden.asked import begun, filled, filled_in, route_of, shown
from tests.golden.story import Known
from tests.golden.world import World

ADA = {"X-Retrier-User": "ada"}
EVENTS = "/api/events"
"""Its answer does not end: the beginning is recorded."""

AGAIN = "/api/redirects"
"""Asked for twice: the second time it is known already."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request: method and address in one, a body, headers. `bare` is a body that is no JSON."""

    line: str
    content: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    bare: bytes | None = None


READS = [
    "/health",
    "/health/ready",
    "/api",
    "/api/errors",
    "/api/errors?per_page=2&page=2&sort=message_id&direction=asc",
    "/api/errors?per_page=2&after=*&sort=modified",
    "/api/errors/ids?per_page=2&after=*&sort=id",
    "/api/pendingretries/ids?after=*",
    "/api/operations?per_page=1&after=*",
    "/api/errors?status=archived",
    "/api/errors?status=unresolved,-archived&queue=orders&endpoint=Sales",
    "/api/errors?status=dead",
    "/api/errors?text=NOTHING%20left%20of&exception_type=Shop.OutOfStock&attempts_at_least=2",
    "/api/errors?modified=2026-05-04T13:01:00Z...2026-05-04T13:02:00Z",
    "/api/errors?stream=order%2042&reason=handler_exception&host=shop-1&disposition=any",
    "/api/errors?group={:group}&failed_from=2026-05-04T12:02:00Z&failed_to=2026-05-04T12:05:00Z",
    "/api/errors?id_prefix=964345ea&message_type=Shop.PlaceOrder&process=4711",
    "/api/errors?message_id=order-1&archived_by={:archiving}",
    "/api/errors?status=nonsense",
    "/api/errors?statuss=archived",
    "/api/errors?status=archived&status=resolved",
    "/api/errors?sort=colour",
    "/api/errors?page=0",
    "/api/errors?page=1&after=*",
    "/api/errors?after=nonsense",
    "/api/errors?per_page=many",
    "/api/errors?direction=up",
    "/api/errors?modified=yesterday",
    "/api/errors?failed_from=2026-05-05T00:00:00Z&failed_to=2026-05-04T00:00:00Z",
    "/api/errors?attempts_at_least=none",
    "/api/errors?field.order=4711",
    "/api/errors?words=nothing",
    "/api/search?q=NOTHING%20left",
    "/api/search?q=order-1",
    "/api/search?q=",
    "/api/errors?disposition=lost",
    "/api/errors?id_prefix=1",
    "/api/errors?queue=%00",
    "/api/messages?per_page=2",
    "/api/messages2?endpoint_name=Sales&q=NOTHING&from=2026-05-04T00:00:00Z&page_size=1",
    "/api/messages2?from=yesterdays",
    "/api/messages/search?q=PlaceOrder&per_page=1",
    "/api/messages/search/{keyword:order-2}",
    "/api/messages/search/{keyword:nobody at all}",
    "/api/endpoints/{name:Sales}/messages?per_page=1",
    "/api/endpoints/{name:Sales}/messages/search?q=nothing%20at%20all",
    "/api/endpoints/{name:a/b}/messages/search/{keyword:order-2}",
    "/api/conversations/{conversation_id:nobody}",
    "/api/endpoints/{name:Sales}/errors",
    "/api/endpoints/{name:a/b}/errors",
    "/api/errors/summary",
    "/api/recoverability/fields/{field_name:order}",
    "/api/recoverability/fields/{field_name:nobody}",
    "/api/errors/queues/addresses",
    "/api/errors/last/{failed_message_id:order-2}",
    "/api/errors/last/{failed_message_id:nobody}",
    *(
        f"/api/errors/{{failed_message_id:{name}}}"
        for name in (
            *("order-1", "order-2", "order-3", "order-4", "order-5", "order-6", "step-11"),
            *("dead-by-policy", "scheduled", "invoice-8", "payment-13", "payment-16", "hostile"),
            *("empty", "5f2a", "by-the-broker", "nobody", "import-0", "no-id"),
        )
    ),
    "/api/messages/{message_id:order-1}/body",
    "/api/messages/{message_id:hostile}/body",
    "/api/messages/{message_id:empty}/body",
    "/api/messages/{message_id:nobody}/body",
    "/api/errors/{failed_message_id:order-2}/attempts",
    "/api/errors/{failed_message_id:nobody}/attempts",
    "/api/errors/{failed_message_id:order-2}/events",
    "/api/errors/{failed_message_id:nobody}/events",
    "/api/archive_operations",
    "/api/archive_operations?id_prefix=ffffffff",
    "/api/archive_operations/{archive_operation_id:archiving}",
    "/api/archive_operations/{archive_operation_id:resolving}",
    "/api/archive_operations/{archive_operation_id:nobody}",
    "/api/pendingretries",
    "/api/pendingretries?queue=orders&older_than=10",
    "/api/pendingretries?operation={:operation}",
    "/api/pendingretries?older_than=long",
    "/api/recovery",
    "/api/imports",
    "/api/imports?error_queue=error&direction=asc&per_page=1",
    "/api/imports?direction=up",
    "/api/imports/{import_id:import-0}",
    "/api/imports/{import_id:import-1}",
    "/api/imports/{import_id:import-3}",
    "/api/imports/{import_id:nobody}",
    "/api/imports/{import_id:order-1}",
    "/api/imports/{import_id:import-1}/body",
    "/api/imports/{import_id:import-2}/body",
    "/api/imports/{import_id:nobody}/body",
    "/api/views",
    "/api/views/{name:nothing}",
    "/api/redirects",
    "/api/redirects?sort=to_physical_address&direction=desc",
    "/api/redirects?sort=colour",
    "/api/breakers",
    "/api/recoverability/classifiers",
    "/api/recoverability/groups",
    "/api/recoverability/groups?classifierFilter=nothing",
    "/api/recoverability/groups/{classifier:Message Type}",
    "/api/recoverability/groups/{classifier:Endpoint Address}",
    "/api/recoverability/groups/{classifier:Endpoint Name}",
    "/api/recoverability/groups/{classifier:Colour}",
    "/api/recoverability/groups/id/{group_id:group}",
    "/api/recoverability/groups/id/{group_id:group}?status=archived",
    "/api/recoverability/groups/id/{group_id:nobody}",
    "/api/recoverability/groups/{group_id:group}/errors",
    "/api/recoverability/groups/{group_id:nobody}/errors",
    "/api/recoverability/history",
    "/api/operations",
    "/api/operations?id_prefix=00000000",
    *(
        f"/api/operations/{{operation_id:{name}}}"
        for name in (
            *("operation", "later", "canary", "paused", "alive", "nobody", "order-1"),
            "00000000-0000-0000-0000-000000000001",
        )
    ),
    "/api/batches",
    "/api/batches/{batch_id:batch}",
    "/api/batches/{batch_id:nobody}",
    "/api/processor",
    "/api/eventlogitems?per_page=200",
    "/api/eventlogitems?kind=retry_asked&per_page=1",
    "/api/eventlogitems?operation={:operation}",
    "/api/eventlogitems?message={:order-2}",
    "/api/eventlogitems?kind=nonsense",
    "/api/errors/groups",
    "/api/errors/groups/{classifier:message type}",
    "/api/errors/groups/{classifier:Colour}",
    "/api/archive/groups/id/{group_id:group}",
    "/api/archive/groups/id/{group_id:nobody}",
    "/api/recoverability/groups/{classifier:ENDPOINT name}",
    "/api/configuration",
    "/api/instance-info",
    "/api/configuration/remotes",
    "/api/authentication/configuration",
    "/api/connection",
    "/api/edit/config",
    "/api/errors/{failed_message_id:order-1}/edit",
    "/api/errors/{failed_message_id:hostile}/edit",
    "/api/errors/{failed_message_id:nobody}/edit",
    "/api/errors/{failed_message_id:order-1}/edits/{edit_id:nobody}/body",
    "/api/endpoints",
    "/api/endpoints/known",
    "/api/endpoints/{name:Sales}/audit-count",
    "/api/endpointssettings",
    "/api/heartbeats/stats",
    "/api/customchecks?status=fail&page=1",
    "/api/sagas/{saga_id:order-1}",
    "/api/license?refresh=true&clientName=servicepulse",
    "/api/license/details",
    "/api/licensing/settings/test",
    "/api/licensing/settings/info",
    "/api/licensing/settings/masks",
    "/api/licensing/endpoints",
    "/api/licensing/report/available",
    "/api/notifications/email",
    "/api/my/routes",
    "/api/policies",
    "/api/streams",
    "/api/streams?queue=orders&held=true",
    "/api/streams?held=perhaps",
    "/api/streams/{stream_id:order 42}?queue=orders",
    "/api/streams/{stream_id:order 42}",
    "/api/streams/{stream_id:a/b}?queue=orders",
    "/api/ledger",
    "/api/tokens",
    "/api/tokens?page=0",
    "/api/nothing",
]

HEADS = [
    "/health",
    "/health/ready",
    "/api/errors?status=unresolved",
    "/api/imports",
    "/api/redirect",
    "/api/recoverability/groups/{group_id:group}/errors",
    "/api/recoverability/groups/{group_id:nobody}/errors",
    "/api/messages",
    "/api/messages2",
    "/api/messages/search",
    "/api/messages/search/{keyword:order-2}",
    "/api/search?q=orders",
    "/api/endpoints/{name:Sales}/messages",
    "/api/endpoints/{name:Sales}/messages/search",
    "/api/endpoints/{name:Sales}/messages/search/{keyword:order-2}",
    "/api/conversations/{conversation_id:nobody}",
]

ONE: dict[str, object] = {"selection": {"ids": ["{:order-2}"]}}
AGE: dict[str, object] = {"from": "2026-05-04T00:00:00Z", "to": "2026-05-05T00:00:00Z"}
TOKEN = {"name": "deploy", "role": "operator", "queues": ["orders*"], "expires": "90d"}
IN_QUEUE: dict[str, object] = {"queueaddress": "payments", **AGE}

PATCH = {
    "headers": {"set": {"Shop.Region": "eu"}, "remove": ["Shop.Tenant"]},
    "body": [{"op": "add", "path": "/region", "value": "eu"}],
}

PREVIEWS = [
    Request("POST /api/errors/ids", ["{:order-2}", "{:nobody}", "order-3"]),
    Request("POST /api/errors/ids", {"no": "list"}),
    Request("POST /api/operations/preview", {"selection": {"queue": "payments"}}),
    Request("POST /api/operations/preview", {"selection": {"all": True}, "destination": "nowhere"}),
    Request("POST /api/operations/preview", {"selection": {"ids": ["{:order-1}", "{:nobody}"]}}),
    Request("POST /api/operations/preview", {"selection": {}}),
    Request("POST /api/operations/preview", {"selection": {"qeue": "orders"}}),
    Request("POST /api/operations/preview", {"selection": {"all": True, "queue": "orders"}}),
    Request("POST /api/operations/preview", {"selection": {"queue": None}}),
    Request("POST /api/operations/preview", {"selection": {"words": "nothing"}}),
    Request("POST /api/operations/preview", {"selection": {"all": True}, "patch": PATCH}),
    Request("POST /api/archive_operations/preview", {"act": "archive", **ONE}),
    Request("POST /api/archive_operations/preview", {"act": "burn", **ONE}),
    Request("POST /api/pendingretries/retry/all/preview", {"queue": "orders"}),
    Request("POST /api/pendingretries/retry/all/preview", {"qeue": "orders"}),
    Request("POST /api/pendingretries/resolve/all/preview", {}),
    Request("POST /api/pendingretries/resolve/all/preview", {"older_than": "long"}),
    Request("POST /api/recovery/retry/preview", {}),
    Request("POST /api/imports/retry/preview?error_queue=error"),
    Request("POST /api/imports/try", {"dialect": "esperanto"}),
    Request("POST /api/imports/try", {"dialects": [{"name": "ours"}]}),
    Request("POST /api/streams/{stream_id:order 42}/release/preview?queue=orders"),
    Request("POST /api/streams/{stream_id:order 42}/release/preview"),
    Request("POST /api/policies/simulate", {"since": "7d"}),
    Request("POST /api/policies/simulate", {"policies": {"default": "dead"}}),
    Request("POST /api/policies/simulate", {"policies": {"default": "retry", "rules": [{}]}}),
]

REFUSED_TERMS: list[dict[str, object]] = [
    {"limit": 0},
    {"destination": "error"},
    {"destination": ""},
    {"not_before": "2029-01-01T00:00:00Z"},
    {"not_before": "tomorrow"},
    {"in": "soon"},
    {"why": "x" * 1001},
    {"rate": 0},
    {"drop_headers": ["Retrier.RetryId"]},
    {"canary": 0},
    {"canary_wait": "1s"},
    {"patch": {"body": [{"op": "add", "path": "region", "value": "eu"}]}},
    {"patch": {"headers": {"set": {"NServiceBus.MessageId": "1"}}}},
    {"plan": "nonsense"},
    {"colour": "red"},
]

ACTS = [
    *(Request("POST /api/operations", {**ONE, **terms}) for terms in REFUSED_TERMS),
    Request("POST /api/operations", bare=b"{"),
    Request("POST /api/operations", bare=b"[1]"),
    Request("POST /api/operations", bare=b'{"selection": {"all": true}, "selection": {}}'),
    Request("POST /api/errors/retry", ["{:order-2}"], {"Origin": "http://elsewhere.example"}),
    Request("POST /api/errors/retry", ["{:order-2}"], {"Host": "elsewhere.example"}),
    Request("POST /api/errors/retry", ["{:order-2}"], {"Idempotency-Key": "x" * 256}),
    Request("POST /api/errors/retry", ["{:order-2}"], {"Idempotency-Key": "monday-1"}),
    Request("POST /api/errors/retry", {"no": "list"}),
    Request("POST /api/errors/retry", bare=b"x" * (16 * 1024 * 1024 + 1)),
    Request("PUT /api/errors/retry", []),
    Request("POST /api/errors/retry", ["{:order-2}", "{:order-1}", "{:nobody}", "{:step-11}"]),
    Request("POST /api/errors/{failed_message_id:order-1}/retry"),
    Request("POST /api/errors/{failed_message_id:nobody}/retry"),
    Request("POST /api/errors/queues/{queue:payments}/retry"),
    Request("POST /api/errors/{endpoint:Sales}/retry/all", headers={"Idempotency-Key": "tuesday"}),
    Request("POST /api/errors/{endpoint:Sales}/retry/all", headers={"Idempotency-Key": "tuesday"}),
    Request("POST /api/errors/queues/{queue:x}/retry", headers={"Idempotency-Key": "tuesday"}),
    Request("POST /api/recoverability/groups/{group_id:group}/errors/retry"),
    Request("POST /api/recoverability/groups/{group_id:nobody}/errors/retry"),
    Request("POST /api/errors/retry/all"),
    Request("POST /api/operations", {**ONE, "rate": 50, "why": "now", "drop_headers": ["x-*"]}),
    Request("POST /api/operations", {"selection": {"queue": "payments"}, "limit": 1, "in": "2h"}),
    Request("PATCH /api/operations/{operation_id:later}", {"paused": True, "rate": 5}),
    Request("PATCH /api/operations/{operation_id:later}", {}),
    Request("PATCH /api/operations/{operation_id:later}", {"rate": 0}),
    Request("PATCH /api/operations/{operation_id:operation}", {"paused": True}),
    Request("PATCH /api/operations/{operation_id:nobody}", {"paused": True}),
    Request("DELETE /api/operations/{operation_id:later}"),
    Request("DELETE /api/operations/{operation_id:operation}"),
    Request("DELETE /api/operations/{operation_id:00000000-0000-0000-0000-000000000001}"),
    Request("DELETE /api/operations/{operation_id:nobody}"),
    Request("POST /api/errors/{failed_message_id:dead-by-policy}/revive"),
    Request("POST /api/errors/{failed_message_id:order-6}/revive"),
    Request("POST /api/errors/{failed_message_id:nobody}/revive"),
    Request("POST /api/errors/{failed_message_id:step-10}/dead", {"why": "it has no end"}),
    Request("POST /api/errors/{failed_message_id:step-11}/dead", {"why": "", "reason": "bad"}),
    Request("POST /api/errors/{failed_message_id:order-1}/dead", {"why": "it has no end"}),
    Request("POST /api/errors/{failed_message_id:nobody}/dead", {"why": "it has no end"}),
    Request("POST /api/errors/archive", ["{:payment-17}", "{:order-3}", "{:nobody}"]),
    Request("PATCH /api/errors/archive", ["{:fixed-20}"]),
    Request("PATCH /api/errors/unarchive", ["{:fixed-20}", "{:order-1}"]),
    Request(
        "PATCH /api/errors/{first:2026-05-04T00:00:00Z}...{last:2026-05-04T13:01:00Z}/unarchive"
    ),
    Request("PATCH /api/errors/{first:yesterday}...{last:today}/unarchive"),
    Request("POST /api/errors/{failed_message_id:scheduled}/archive"),
    Request("PATCH /api/errors/{failed_message_id:scheduled}/archive"),
    Request("PATCH /api/errors/{failed_message_id:order-3}/archive"),
    Request("PATCH /api/errors/{failed_message_id:nobody}/archive"),
    Request("POST /api/recoverability/groups/{group_id:group}/errors/archive"),
    Request("POST /api/recoverability/groups/{group_id:group}/errors/unarchive"),
    Request("POST /api/recoverability/groups/{group_id:nobody}/errors/archive"),
    Request("POST /api/archive_operations", {"act": "archive", **ONE, "why": "old"}),
    Request("POST /api/archive_operations", {"act": "archive", "selection": {}}),
    Request("POST /api/archive_operations", {"act": "archive", **ONE, "plan": "AAAA"}),
    Request("POST /api/archive_operations/{archive_operation_id:archiving}/undo"),
    Request("POST /api/archive_operations/{archive_operation_id:resolving}/undo"),
    Request("POST /api/archive_operations/{archive_operation_id:nobody}/undo"),
    Request("POST /api/pendingretries/retry/all", {"queue": "orders", "older_than": 10}),
    Request("POST /api/pendingretries/retry/all", {"colour": "red"}),
    Request("PATCH /api/pendingretries/resolve/all", {"queue": "invoices"}),
    Request("PATCH /api/pendingretries/resolve/all", {"plan": "nonsense"}),
    Request("POST /api/pendingretries/retry", ["{:order-3}", "{:nobody}"]),
    Request("POST /api/pendingretries/queues/retry", IN_QUEUE),
    Request("POST /api/pendingretries/queues/retry", {"queueaddress": "payments"}),
    Request("PATCH /api/pendingretries/resolve", {"uniquemessageids": ["{:order-3}"]}),
    Request("PATCH /api/pendingretries/resolve", {"ids": ["{:order-3}"]}),
    Request("PATCH /api/pendingretries/queues/resolve", IN_QUEUE),
    Request("PATCH /api/pendingretries/queues/resolve", {**IN_QUEUE, "from": "then"}),
    Request("POST /api/recovery/retry", {}),
    Request("POST /api/recovery", {"since": "2029-05-04T02:00:00Z"}),
    Request("POST /api/recovery", {"since": "2026-05-04T12:30:00Z"}),
    Request("POST /api/recovery/retry", {"queue": "payments"}),
    Request("POST /api/recovery/retry", {"queue": ""}),
    Request("DELETE /api/recovery"),
    Request("DELETE /api/recovery"),
    Request("POST /api/search/reindex", {"after": 1_000_000}),
    Request("POST /api/search/reindex", {"after": -1}),
    Request("POST /api/imports/{import_id:import-1}/retry?destination=orders"),
    Request("POST /api/imports/{import_id:import-1}/retry"),
    Request("POST /api/imports/{import_id:import-0}/retry?destination=error"),
    Request("POST /api/imports/{import_id:nobody}/retry"),
    Request("POST /api/imports/retry?error_queue=error"),
    Request("POST /api/imports/retry?plan=nonsense"),
    Request("POST /api/imports/retry?dialect=esperanto"),
    Request("POST /api/imports/{import_id:import-2}/send", {"to": "orders"}),
    Request("POST /api/imports/{import_id:import-2}/send", {"to": "orders"}),
    Request("POST /api/imports/{import_id:import-3}/send", {"to": "nowhere"}),
    Request("POST /api/imports/{import_id:import-3}/send", {"to": ""}),
    Request("POST /api/imports/{import_id:import-3}/send", {"to": "error"}),
    Request("POST /api/imports/{import_id:nobody}/send", {"to": "orders"}),
    Request("DELETE /api/imports/{import_id:import-3}"),
    Request("DELETE /api/imports/{import_id:import-3}"),
    Request("DELETE /api/imports/{import_id:nobody}"),
    Request("PUT /api/views/{name:night}", {"page": "messages", "query": "queue=orders"}),
    Request("PUT /api/views/{name:night}", {"page": "groups", "query": "by=type"}),
    Request("PUT /api/views/{name:night}", {"page": "groups", "query": "by=type", "version": 1}),
    Request("PUT /api/views/{name:day}", {"page": "nowhere", "query": "by=type"}),
    Request("DELETE /api/views/{name:night}"),
    Request("POST /api/redirects", {"fromphysicaladdress": "a", "tophysicaladdress": "b"}),
    Request("POST /api/redirects", {"fromphysicaladdress": "a", "tophysicaladdress": "c"}),
    Request("POST /api/redirects", {"fromphysicaladdress": "b", "tophysicaladdress": "a"}),
    Request("POST /api/redirects", {"fromphysicaladdress": "a"}),
    Request("POST /api/redirects", {"fromphysicaladdress": "a", "tophysicaladdress": "a"}),
    Request("POST /api/redirects", {"fromphysicaladdress": "x", "tophysicaladdress": "error"}),
    Request(
        "POST /api/redirects",
        {"fromphysicaladdress": "orders", "tophysicaladdress": "new", "retryexisting": True},
    ),
    Request("PUT /api/redirects/{redirect_id:redirect}", {"tophysicaladdress": "newer"}),
    Request("PUT /api/redirects/{redirect_id:redirect}", {"tophysicaladdress": ""}),
    Request("PUT /api/redirects/{redirect_id:nobody}", {"tophysicaladdress": "newer"}),
    Request("DELETE /api/redirects/{redirect_id:redirect}"),
    Request("DELETE /api/redirects/{redirect_id:redirect}"),
    Request("POST /api/breakers/{key:orders}/open", {"for": "2h", "why": "it is moved"}),
    Request("POST /api/breakers/{key:a/b}/open", {}),
    Request("POST /api/breakers/{key:orders}/open", {"for": "10d"}),
    Request("POST /api/breakers/{key:payments}/close", {"why": "it is back"}),
    Request("POST /api/breakers/{key:payments}/close", {"for": "soon"}),
    Request("POST /api/recoverability/groups/{group_id:group}/comment?comment=a%20%26%20b"),
    Request("POST /api/recoverability/groups/{group_id:group}/comment?comment="),
    Request("POST /api/recoverability/groups/{group_id:nobody}/comment?comment=x"),
    Request("DELETE /api/recoverability/groups/{group_id:group}/comment"),
    Request("DELETE /api/recoverability/groups/{group_id:nobody}/comment"),
    Request("DELETE /api/recoverability/unacknowledgedgroups/{group_id:group}"),
    Request("DELETE /api/recoverability/unacknowledgedgroups/{group_id:nobody}"),
    Request("POST /api/streams/{stream_id:order 42}/release?queue=orders", {"ids": ["{:order-1}"]}),
    Request("POST /api/streams/{stream_id:order 42}/release?queue=orders", {"ids": []}),
    Request("POST /api/streams/{stream_id:order 42}/release?queue=orders"),
    Request("POST /api/streams/{stream_id:nothing}/release?queue=orders"),
    Request("POST /api/edit/{failed_message_id:order-1}", {"message_body": "x"}),
    Request("DELETE /api/customchecks/{check_id:nobody}"),
    Request("POST /api/notifications/email", {"enabled": True}),
    Request("POST /api/notifications/email/toggle", {"enabled": True}),
    Request("POST /api/notifications/email/test"),
    Request("PATCH /api/errors/archive", [""]),
    Request("OPTIONS /api/errors"),
    Request("POST /api/errors/{failed_message_id:hostile}/edit", {}),
    Request("POST /api/errors/{failed_message_id:hostile}/edit", {"body": "{"}),
    Request(
        "POST /api/errors/{failed_message_id:hostile}/edit",
        {"headers": {"set": {"Shop.New": "1"}}, "why": "wrong tenant", "send_dead": True},
    ),
    Request("POST /api/errors/{failed_message_id:hostile}/edit", {"body": "{}"}),
    Request("POST /api/errors/{failed_message_id:nobody}/edit", {"body": "{}"}),
    Request(
        "POST /api/edit/{failed_message_id:hostile}", {"message_body": "x", "message_headers": []}
    ),
    Request("GET /api/errors/{failed_message_id:hostile}"),
    Request("POST /api/operations/{operation_id:operation}/approve"),
    Request("POST /api/operations/{operation_id:paused}/approve", {"plan_hash": "x" * 65}),
    Request("POST /api/operations/{operation_id:nobody}/approve", {"plan_hash": "x"}),
    Request("POST /api/operations/{operation_id:operation}/refuse"),
    Request("POST /api/operations/{operation_id:nobody}/refuse"),
    Request("POST /api/tokens", TOKEN),
    Request("POST /api/tokens", TOKEN),
    Request("POST /api/tokens", {"name": "no name", "role": "reader"}),
    Request("POST /api/tokens", {"name": "night", "role": "king"}),
    Request("POST /api/tokens", {"name": "night", "role": "reader", "queues": [""]}),
    Request("POST /api/tokens", {"name": "night", "role": "reader", "expires": "soon"}),
    Request("GET /api/tokens"),
    Request("DELETE /api/tokens/{name:deploy}"),
    Request("DELETE /api/tokens/{name:deploy}"),
    Request("DELETE /api/tokens/{name:nobody}"),
    Request("GET /api/tokens"),
]

REQUESTS = [
    *(Request(f"GET {each}") for each in READS),
    *(Request(f"HEAD {each}") for each in HEADS),
    *PREVIEWS,
    *ACTS,
]


def recorded(world: World, known: Known) -> dict[str, str]:
    """Ask for everything; return the answers by their requests."""
    found = {"openapi.json": shown(world.http.get("/openapi.json"))}
    for each in REQUESTS:
        title = " ".join([each.line, *_told(each)])
        while title in found:
            title += " (again)"
        found[title] = _ask(world, each, known)
    tag = world.http.get(AGAIN).headers["ETag"]
    known_tag = Request(f"GET {AGAIN}", headers={"If-None-Match": tag})
    found[f"GET {AGAIN} (with its ETag)"] = _ask(world, known_tag, known)
    world.transport.go_down()
    unsent = Request("POST /api/imports/{import_id:import-0}/send", {"to": "orders"})
    found[f"{unsent.line} (the broker is away)"] = _ask(world, unsent, known)
    world.transport.come_up()
    found[f"GET {EVENTS}"] = begun(world.faces, EVENTS, {"Last-Event-ID": "1"})
    return found


def routes(world: World) -> set[str]:
    """Return every route that the API describes."""
    paths = world.http.get("/openapi.json").json()["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def recorded_routes() -> set[str]:
    """Return the routes that are asked for, and those that are fetched otherwise."""
    asked = {f"{method} {route_of(path)}" for method, path in map(_parts, REQUESTS)}
    return {*asked, f"GET {EVENTS}", "GET /metrics", "HEAD /metrics"} - {"OPTIONS /api/errors"}


def _told(request: Request) -> list[str]:
    bare = [] if request.bare is None else [f"{request.bare[:60]!r}"]
    content = [] if request.content is None else [str(request.content)[:120]]
    headers = [f"{name}: {value[:40]}" for name, value in request.headers.items()]
    return [*bare, *content, *headers]


def _parts(request: Request) -> tuple[str, str]:
    method, _, path = request.line.partition(" ")
    return method, path


def _ask(world: World, request: Request, known: Known) -> str:
    method, path = _parts(request)
    if method not in {"GET", "HEAD"}:
        world.clock.advance(1)
    body: dict[str, object] = {}
    if request.bare is not None:
        body = {"content": request.bare}
    elif request.content is not None:
        body = {"json": filled_in(request.content, known)}
    typed = {"Content-Type": "application/json"} if request.bare is not None else {}
    headers = {**ADA, **typed, **request.headers}
    return shown(world.http.request(method, filled(path, known), headers=headers, **body))  # type: ignore[arg-type]
