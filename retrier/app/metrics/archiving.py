"""What is counted of acts on messages: archive, unarchive, resolve."""

from prometheus_client import CollectorRegistry, Counter

from retrier.events.event import Event
from retrier.events.processor import ArchiveAsked, ArchiveChunkDone, ArchiveCompleted, DoneAtOnce

ACTS = ("archive", "unarchive", "resolve")


class ArchiveCounters:
    """A subscriber that counts what is asked for, and what is done, once that is committed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._asked = Counter(
            "retrier_archive_operations_asked",
            "Requests to archive, unarchive or resolve messages that came to this process.",
            ["act"],
            registry=registry,
        )
        self._completed = Counter(
            "retrier_archive_operations_completed",
            "Such requests that this process has done to their end.",
            ["act"],
            registry=registry,
        )
        self._messages = Counter(
            "retrier_archive_operations_messages",
            "Messages that such requests have changed, or left as they were.",
            ["act", "outcome"],
            registry=registry,
        )
        for act in ACTS:
            self._asked.labels(act)
            self._completed.labels(act)
            self._count(act, 0, 0)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case ArchiveAsked(act=act):
                self._asked.labels(act).inc()
            case DoneAtOnce(act=act, done=done, skipped=skipped):
                self._asked.labels(act).inc()
                self._count(act, done, skipped)
                self._completed.labels(act).inc()
            case ArchiveChunkDone(act=act, done=done, skipped=skipped):
                self._count(act, done, skipped)
            case ArchiveCompleted(act=act):
                self._completed.labels(act).inc()
            case _:
                pass

    def _count(self, act: str, done: int, skipped: int) -> None:
        self._messages.labels(act, "changed").inc(done)
        self._messages.labels(act, "skipped").inc(skipped)
