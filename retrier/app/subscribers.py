"""The subscribers to events in a service: the tests' crash switch, log, metrics, and traces."""

from collections.abc import Mapping

from retrier.app.log.writer import LineWriter, Log
from retrier.app.metrics.instruments import Metrics
from retrier.app.process import make_crash_switch
from retrier.clock import Clock
from retrier.domain.wire import PropertyCodec
from retrier.events.event import Emit, EventStream, Harmless, ignore
from retrier.events.service import TracingUnavailable

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def make_stream(
    environ: Mapping[str, str],
    writer: LineWriter,
    clock: Clock,
    metrics: Metrics,
    codec: PropertyCodec,
) -> EventStream:
    """Return the stream of a service. Only the crash switch may stop the work that emits."""
    # `ignore`: if the log itself fails, nothing is left that could report it.
    log = Harmless(Log(writer.write, clock), ignore)
    counting = (
        metrics.ingestion,
        metrics.retries,
        metrics.retention,
        metrics.archives,
        metrics.policies,
    )
    reporting = (*counting, make_traces(environ, codec, log))
    return EventStream(
        make_crash_switch(environ), log, *(Harmless(each, report=log) for each in reporting)
    )


def make_traces(environ: Mapping[str, str], codec: PropertyCodec, report: Emit) -> Emit:
    """Return the subscriber that makes traces; `ignore` if the environment configures none."""
    if not _wants_traces(environ):
        return ignore
    try:
        from retrier.app.tracing import Tracing, make_provider  # noqa: PLC0415 - an extra
    except ImportError as error:
        report(TracingUnavailable(reason=f"{error}; install retrier[otel]"))
        return ignore
    return Tracing(codec, make_provider())


def _wants_traces(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    return any(environ.get(name) for name in _ENDPOINTS)
