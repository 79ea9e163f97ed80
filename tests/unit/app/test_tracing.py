"""A span for each retry, linked to the trace its message carries."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from retrier.app.service import make_traces
from retrier.app.tracing import Tracing
from retrier.domain import headers
from retrier.domain.wire import Confirmed, Edit, Outgoing, Refused, Returned
from retrier.events.event import ignore
from retrier.events.processor import WindowSent
from retrier.events.service import ServiceStopped
from retrier.store.engine.database import Database
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.bench import QUEUE, Bench
from tests.support.collector import collecting
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.factories import FAILED_AT
from tests.support.script import to_queue
from tests.support.told import Told

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


class Traced:
    """A bench whose processor is traced."""

    def __init__(self, db: Database) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        codec = AmqpPropertyCodec()
        self.bench = Bench(db, subscriber=Tracing(codec, provider))

    def retry(self, **headers_given: str) -> None:
        self.bench.fail(headers=headers_given)
        self.bench.ask_all()
        self.bench.work()

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    """Give a bench whose spans are kept; what a database does here is the same on each."""
    db = open_upgraded(sqlite_url(tmp_path))
    yield Traced(db)
    db.dispose()


def test_a_retry_is_linked_to_the_trace_its_message_carries(traced: Traced) -> None:
    traced.retry(traceparent=TRACEPARENT, tracestate="shop=1")

    (span,) = traced.spans
    (link,) = span.links
    assert span.name == f"retry {QUEUE}"
    assert f"{link.context.trace_id:032x}" == TRACE
    assert link.context.trace_state.get("shop") == "1"


def test_a_retry_begins_a_trace_of_its_own(traced: Traced) -> None:
    traced.retry(traceparent=TRACEPARENT)

    (span,) = traced.spans
    assert span.parent is None
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" != TRACE


@pytest.mark.parametrize("carried", [{}, {"traceparent": "nonsense"}, {"traceparent": ""}], ids=str)
def test_a_message_without_a_trace_has_a_span_without_a_link(
    traced: Traced, carried: dict[str, str]
) -> None:
    traced.retry(**carried)

    (span,) = traced.spans
    assert span.links == ()
    assert span.status.is_unset


def test_a_span_names_queue_message_and_retry(traced: Traced) -> None:
    (unique_id,) = traced.bench.fail()
    traced.bench.ask_all()
    traced.bench.work()

    (span,) = traced.spans
    assert span.attributes is not None
    assert span.attributes["messaging.destination.name"] == QUEUE
    assert span.attributes["retrier.unique_message_id"] == unique_id
    assert span.attributes["retrier.retry_id"] == traced.bench.retry_id(unique_id)


@pytest.mark.parametrize("outcome", [Returned("NO_ROUTE"), Refused("nack")])
def test_a_retry_that_is_not_taken_says_why(traced: Traced, outcome: Returned | Refused) -> None:
    traced.bench.transport.cue(outcome, when=to_queue(QUEUE))

    traced.retry()

    (span,) = traced.spans
    assert not span.status.is_ok
    assert span.status.description == outcome.reason


def test_a_message_keeps_the_trace_it_came_with(traced: Traced) -> None:
    traced.retry(traceparent=TRACEPARENT)

    (sent,) = traced.bench.transport.broker.holds(QUEUE)
    carried = traced.bench.transport.codec.read(sent.raw).headers
    assert carried["traceparent"] == TRACEPARENT
    assert set(carried) == {
        "traceparent",
        headers.MESSAGE_TYPE,
        headers.ENDPOINT,
        headers.UNIQUE_MESSAGE_ID,
        headers.ACKNOWLEDGEMENT_QUEUE,
        headers.RETRY_ID,
    }


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "shop"},
        ENDPOINT | {"OTEL_SDK_DISABLED": "true"},
        ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=str,
)
def test_nothing_is_traced_where_nobody_asks_for_it(environ: dict[str, str]) -> None:
    assert make_traces(environ, AmqpPropertyCodec(), Told().tell) is ignore


def send_one(environ: dict[str, str]) -> None:
    """Let one retry be traced as the environment says, and the process end."""
    codec = AmqpPropertyCodec()
    raw = codec.edit(codec.empty, Edit(set_headers={"traceparent": TRACEPARENT}))
    traces = make_traces(environ, codec, Told().tell)
    message = Outgoing(queue=QUEUE, raw=raw, body=b"")
    traces(WindowSent(messages=[message], outcomes=[Confirmed()], began=FAILED_AT))
    traces(ServiceStopped())


def test_an_endpoint_is_sent_the_traces_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)

        send_one(dict(os.environ))

    ((path, body),) = collector.posted
    assert path == "/v1/traces"
    for part in (b"retry " + QUEUE.encode(), bytes.fromhex(TRACE), b"service.name", b"retrier"):
        assert part in body


def test_a_collector_that_is_away_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    began = time.monotonic()

    send_one(dict(os.environ))

    assert time.monotonic() - began < 8


WITHOUT_THE_EXTRA = """
import sys
sys.modules["opentelemetry.exporter"] = None
from retrier.app.service import make_traces
from retrier.events.event import ignore
tell = lambda event: print(event.name, event.reason)
print(make_traces({"OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, None, tell) is ignore)
print(make_traces({}, None, tell) is ignore)
"""


def test_without_the_extra_it_says_so_and_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, check=True
    )

    told, *went_on = done.stdout.splitlines()
    assert told.startswith("tracing.unavailable")
    assert "retrier[otel]" in told
    assert went_on == ["True", "True"]
