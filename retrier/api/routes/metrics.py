"""Metrics, as Prometheus reads them."""

from functools import partial

from fastapi import APIRouter, Request, Response

from retrier.api.parts import Parts

router = APIRouter(tags=["service"])


@router.get("/metrics", response_class=Response)
async def get_metrics(request: Request, parts: Parts) -> Response:
    """Return all metrics of this process, in Prometheus' text format or as OpenMetrics."""
    accept = request.headers.get("accept", "")
    content_type, text = await parts.watch(partial(parts.metrics, accept))
    headers = {"Content-Type": content_type, "Cache-Control": "no-store"}
    return Response(text, headers=headers)
