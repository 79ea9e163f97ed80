"""A span for each retry that is sent, linked to the trace in its message (OpenTelemetry).

It is imported only if traces are configured: OpenTelemetry is an optional dependency.
"""

import threading

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from retrier import __version__
from retrier.domain import headers
from retrier.domain.wire import Confirmed, Outcome, Outgoing, Properties, PropertyCodec
from retrier.events.event import Event
from retrier.events.processor import WindowSent
from retrier.events.service import ServiceStopped

_CARRIED = ("traceparent", "tracestate")
_GRACE = 2.0
"""Seconds to send the last spans; a collector that is away must not delay the stop."""


def make_provider() -> TracerProvider:
    """Return a provider that sends spans where the standard OTEL_ variables say."""
    resource = Resource({"service.name": "retrier"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class Tracing:
    """A subscriber that makes a span for each retry, and sends the last ones at the stop.

    The span has a link to the trace of the message, not a parent: that trace may be days old and
    closed. The message is not changed; it keeps the trace it came with.
    """

    def __init__(self, codec: PropertyCodec, provider: TracerProvider) -> None:
        self._codec = codec
        self._provider = provider
        self._tracer = provider.get_tracer("retrier", __version__)

    def __call__(self, event: Event) -> None:
        """Make spans of a window, or send the last ones."""
        match event:
            case WindowSent(messages=messages, outcomes=outcomes, began=began):
                start = int(began.timestamp() * 1_000_000_000)
                for message, outcome in zip(messages, outcomes, strict=True):
                    self._trace(message, outcome, start)
            case ServiceStopped():
                self._send_last()
            case _:
                pass

    def _send_last(self) -> None:
        closing = threading.Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        closing.start()
        closing.join(_GRACE)

    def _trace(self, message: Outgoing, outcome: Outcome, start: int) -> None:
        properties = self._codec.read(message.raw)
        span = self._tracer.start_span(
            f"retry {message.queue}",
            context=Context(),
            kind=trace.SpanKind.PRODUCER,
            links=_find_links(properties),
            attributes={
                "messaging.operation.type": "send",
                "messaging.destination.name": message.queue,
                "retrier.unique_message_id": properties.text(headers.UNIQUE_MESSAGE_ID) or "",
                "retrier.retry_id": properties.text(headers.RETRY_ID) or "",
            },
            start_time=start,
        )
        if not isinstance(outcome, Confirmed):
            span.set_status(trace.StatusCode.ERROR, outcome.reason)
        span.end()


def _find_links(properties: Properties) -> list[trace.Link]:
    """Return a link to the trace in the message; none if there is no readable one."""
    carrier = {name: properties.text(name) or "" for name in _CARRIED}
    context = TraceContextTextMapPropagator().extract(carrier, Context())
    carried = trace.get_current_span(context).get_span_context()
    return [trace.Link(carried)] if carried.is_valid else []
