"""Who watches the processor: the counters, and traces where they are asked for."""

from collections.abc import Mapping

from retrier.domain.wire import PropertyCodec
from retrier.logs import Say
from retrier.processor.watcher import Watcher

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def make_watcher(
    environ: Mapping[str, str], counters: Watcher, codec: PropertyCodec, say: Say
) -> Watcher:
    """Return the counters, with traces around them if the environment names where to send them."""
    if not _wants_traces(environ):
        return counters
    try:
        from retrier.app.tracing import Tracing, make_provider  # noqa: PLC0415 - an extra
    except ImportError as error:
        say("tracing.unavailable", reason=f"{error}; install retrier[otel]")
        return counters
    return Tracing(counters, codec, make_provider())


def _wants_traces(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    return any(environ.get(name) for name in _ENDPOINTS)
