"""Metrics, as Prometheus reads them."""

from fastapi import APIRouter, Request, Response

from retrier.api.parts import Parts

router = APIRouter(tags=["service"])


@router.get("/metrics", response_class=Response)
def get_metrics(request: Request, parts: Parts) -> Response:
    """Return all metrics of this process, in Prometheus' text format or as OpenMetrics."""
    content_type, text = parts.metrics(request.headers.get("accept", ""))
    headers = {"Content-Type": content_type, "Cache-Control": "no-store"}
    return Response(text, headers=headers)
