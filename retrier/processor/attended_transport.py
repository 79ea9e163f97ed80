"""The broker as the processor uses it: whatever waits for it says so meanwhile."""

from collections.abc import Callable, Iterable
from typing import Any, cast

from retrier.domain.standstill import ForBroker, ForDatabase
from retrier.domain.wire import Outcome, Outgoing
from retrier.processor.progress import Progress
from retrier.transport.seam import Awaited, Consumer, Publisher, Queues, Transport, nothing


class AttendedTransport:
    """The same transport; what it makes notes that the broker is waited for."""

    def __init__(self, inner: Transport, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress
        self.capabilities = inner.capabilities
        self.codec = inner.codec
        self.user = inner.user
        self.place = inner.place

    def publisher(self, probe: Outgoing | None = None) -> Publisher:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            return AttendedPublisher(self._inner.publisher(probe), self._progress)

    def consumer(self, queue: str, prefetch: int) -> Consumer:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            inner = self._inner.consumer(queue, prefetch)
        return cast("Consumer", _Attended(inner, self._progress))

    def queues(self) -> Queues:
        """See the seam."""
        with self._progress.waiting(ForBroker()):
            inner = self._inner.queues()
        return cast("Queues", _Attended(inner, self._progress))


class AttendedPublisher:
    """Notes what is not confirmed yet, as often as the publisher looks up from waiting."""

    def __init__(self, inner: Publisher, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

    @property
    def awaited(self) -> Awaited:
        """See the seam."""
        return self._inner.awaited

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        meanwhile: Callable[[], None] = nothing,
    ) -> tuple[Outcome, ...]:
        """See the seam."""

        def attend() -> None:
            waiting()
            self._progress.awaits(self._inner.awaited)

        def do_meanwhile() -> None:
            with self._progress.waiting(ForDatabase()):
                meanwhile()

        with self._progress.waiting(ForBroker()):
            return self._inner.publish(messages, attend, do_meanwhile)

    def keep_alive(self) -> None:
        """See the seam."""
        self._inner.keep_alive()

    def close(self) -> None:
        """See the seam."""
        self._inner.close()


class _Attended:
    """A consumer or a look at queues: whatever it is asked, the broker has to answer."""

    def __init__(self, inner: Consumer | Queues, progress: Progress) -> None:
        self._inner = inner
        self._progress = progress

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def ask(*arguments: Any) -> Any:
            with self._progress.waiting(ForBroker()):
                return method(*arguments)

        return ask
