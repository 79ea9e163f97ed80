"""Who watches the processor: the counters, and traces where they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from retrier.domain.retry_batch import Ejected, WindowResult
from retrier.domain.wire import Outcome, Outgoing, PropertyCodec
from retrier.logs import Say
from retrier.processor.watcher import Stage, Watcher

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class HarmlessWatcher:
    """Keeps from the processor what a watcher raises, and tells it once.

    It is told between the broker's confirmation and the record of it: what it raised there would
    leave the window unrecorded, and have it sent again, and again.
    """

    def __init__(self, inner: Watcher, say: Say) -> None:
        self._inner = inner
        self._say = say
        self._told = False

    def sent(
        self, messages: Sequence[Outgoing], outcomes: Sequence[Outcome], began: datetime
    ) -> None:
        """See Watcher."""
        self._tell(lambda: self._inner.sent(messages, outcomes, began))

    def recorded(self, window: WindowResult) -> None:
        """See Watcher."""
        self._tell(lambda: self._inner.recorded(window))

    def ejected(self, messages: Sequence[Ejected]) -> None:
        """See Watcher."""
        self._tell(lambda: self._inner.ejected(messages))

    def passed(self, stage: Stage, seconds: float) -> None:
        """See Watcher."""
        self._tell(lambda: self._inner.passed(stage, seconds))

    def close(self) -> None:
        """See Watcher."""
        self._tell(self._inner.close)

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # noqa: BLE001 - no count and no span is worth a retry
            if not self._told:
                self._say("watcher.failed", error=type(error).__name__, exc_info=error)
            self._told = True


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
