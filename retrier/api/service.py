"""The service itself: health, metrics, ledger, and what the API is."""

from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from fastapi import HTTPException, Request, Response

from retrier.api.answers import HEADERS, Answer, Routes, answer, encode
from retrier.api.parts import Parts, UnaskedParts
from retrier.api.shapes import service as shapes
from retrier.domain.failed_message import FailedMessageStatus
from retrier.http.access import ASKED, NOBODY_THERE, is_known
from retrier.store.figures import Ledger, read_ledger


def ledger(read: Ledger) -> shapes.Ledger:
    """Show both sums, term by term, and the differences: 0 when everything adds up."""
    return {
        "deliveries": {
            "taken_off": read.entry("taken_off"),
            "reimported": read.entry("reimported"),
            "new": read.entry("new"),
            "repeated": read.entry("repeated"),
            "redelivered": read.entry("redelivered"),
            "confirmations": read.entry("confirmations"),
            "own_copies": read.entry("own_copies"),
            "failed_imports": read.entry("failed_imports"),
            "difference": read.uncounted_deliveries,
        },
        "messages": {
            "new": read.entry("new"),
            "unresolved": read.stored.get(FailedMessageStatus.UNRESOLVED, 0),
            "retry_issued": read.stored.get(FailedMessageStatus.RETRY_ISSUED, 0),
            "resolved": read.stored.get(FailedMessageStatus.RESOLVED, 0),
            "archived": read.stored.get(FailedMessageStatus.ARCHIVED, 0),
            "deleted": read.entry("deleted"),
            "difference": read.missing_messages,
        },
    }


T = TypeVar("T")

watching = Routes(tags=["service"])
"""Routes of every process, whatever its roles."""


@watching.head("/health")
@watching.get("/health")
async def get_health() -> Answer[shapes.Health]:
    """Answer 200 as long as the process answers.

    It is `async`, so it needs no thread of the pool: requests that hang on a frozen database may
    hold all threads, and that is no reason to restart the process.
    """
    return _report({"status": "healthy"}, 200)


_UNTOLD = "told to who is logged in"


@watching.head("/health/ready")
@watching.get("/health/ready")
async def get_readiness(request: Request, parts: UnaskedParts) -> Answer[shapes.Readiness]:
    """Answer 200 if every part works, else 503, with the reason of each part.

    Reasons name queues and hosts: where people log in, only those who may read are told them.
    """
    health = await parts.watch(parts.health)
    ready = all(ok for ok, _ in health.values())
    is_told = await is_known(request)
    report: shapes.Readiness = {
        "status": "ready" if ready else "not ready",
        "parts": {
            name if is_told else name.partition(" ")[0]: {
                "ok": ok,
                "reason": reason if is_told else _UNTOLD,
            }
            for name, (ok, reason) in health.items()
        },
    }
    return _report(report, 200 if ready else 503)


def _report(content: T, status: int) -> Answer[T]:
    headers = {**HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}
    return Answer(encode(content), status_code=status, headers=headers)


@watching.head("/metrics", response_class=Response)
@watching.get("/metrics", response_class=Response)
async def get_metrics(request: Request, parts: UnaskedParts) -> Response:
    """Return all metrics of this process, in Prometheus' text format or as OpenMetrics.

    Their labels name queues: where people log in, they take a token that may read.
    """
    if not await is_known(request):
        raise HTTPException(401, NOBODY_THERE, ASKED)
    accept = request.headers.get("accept", "")
    content_type, text = await parts.watch(partial(parts.metrics, accept))
    headers = {"Content-Type": content_type, "Cache-Control": "no-store"}
    return Response(text, headers=headers)


router = Routes(prefix="/api", tags=["service"])


@router.get("/ledger")
def get_ledger(request: Request, parts: Parts) -> Answer[shapes.Ledger]:
    """Return how many messages were taken off the error queues and what became of them."""
    parts.must_see_all()
    return answer(request, ledger(read_ledger(parts.db)))


_LIST = "{?page,per_page,direction,sort}"
_URLS = {
    "errors_url": f"errors/{_LIST}",
    "endpoints_error_url": f"endpoints/{{name}}/errors/{_LIST}",
    "event_log_items": "eventlogitems",
    "events_url": "events",
    "classifiers_url": "recoverability/classifiers",
    "groups_url": "recoverability/groups/{classifier?}",
    "message_body_url": "messages/{id}/body",
    "operations_url": "operations",
    "batches_url": "batches",
    "processor_url": "processor",
    "imports_url": "imports",
    "redirects_url": "redirects",
    "recovery_url": "recovery",
    "endpoints_url": "endpoints",
    "known_endpoints_url": "endpoints/known",
    "endpoints_messages_url": f"endpoints/{{name}}/messages/{_LIST}",
    "endpoints_message_search_url": f"endpoints/{{name}}/messages/search/{{keyword}}/{_LIST}",
    "audit_count_url": "endpoints/{name}/audit-count",
    "message_search_url": f"messages/search/{{keyword}}/{_LIST}",
    "configuration": "configuration",
    "remote_configuration": "configuration/remotes",
    "license_details": "license",
    "sagas_url": "sagas",
    "archived_groups_url": "errors/groups/{classifier?}",
    "get_archive_group": "archive/groups/id/{groupId}",
    "my_routes_url": "my/routes",
    "policies_url": "policies",
    "ledger_url": "ledger",
}


@router.get("")
def get_root(request: Request, parts: Parts) -> Answer[Mapping[str, str]]:
    """Return name, version and the URLs of the API."""
    base = f"{request.base_url}api/"
    urls = {name: base + path for name, path in _URLS.items()}
    about = {
        "name": "Retrier",
        "description": "Keeps failed messages and sends them back in crash-safe batches",
        "version": parts.version,
        "license_status": "valid",
    }
    return answer(request, about | urls)
