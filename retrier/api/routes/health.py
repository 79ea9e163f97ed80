"""Health: alive at all, and ready to work."""

from fastapi import APIRouter, Response

from retrier.api.answers import HEADERS, encode
from retrier.api.parts import Parts

router = APIRouter(tags=["service"])


@router.get("/health")
async def get_health() -> Response:
    """Answer 200 as long as the process answers.

    In no thread of the pool: requests that hang on a frozen database may have them all, which
    is no reason to restart the process.
    """
    return _report({"status": "healthy"}, 200)


@router.get("/health/ready")
async def get_readiness(parts: Parts) -> Response:
    """Answer 200 if every part works, else 503, with the reason of each part."""
    health = await parts.watch(parts.health)
    ready = all(ok for ok, _ in health.values())
    told = {name: {"ok": ok, "reason": reason} for name, (ok, reason) in health.items()}
    report = {"status": "ready" if ready else "not ready", "parts": told}
    return _report(report, 200 if ready else 503)


def _report(content: object, status: int) -> Response:
    headers = {**HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}
    return Response(encode(content), status_code=status, headers=headers)
