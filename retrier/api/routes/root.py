"""The root document: where everything is."""

from fastapi import APIRouter, Request, Response

from retrier.api.answers import answer
from retrier.api.parts import Parts

router = APIRouter(prefix="/api", tags=["service"])

_LIST = "{?page,per_page,direction,sort}"
_URLS = {
    "errors_url": f"errors/{_LIST}",
    "endpoints_error_url": f"endpoints/{{name}}/errors/{_LIST}",
    "event_log_items": "eventlogitems",
    "classifiers_url": "recoverability/classifiers",
    "groups_url": "recoverability/groups/{classifier?}",
    "message_body_url": "messages/{id}/body",
    "operations_url": "operations",
    "batches_url": "batches",
    "processor_url": "processor",
    "redirects_url": "redirects",
    "ledger_url": "ledger",
}


@router.get("")
def get_root(request: Request, parts: Parts) -> Response:
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
