"""The requests of a Celery worker, so made that they tell how a task ended.

They live in the worker's main process. Only there is the message as it came, and only there is it
known that a child was lost or a time limit was exceeded.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Protocol

from billiard.einfo import ExceptionInfo
from celery.bootsteps import StartStopStep
from celery.exceptions import Ignore, Reject, Retry
from celery.utils.imports import symbol_by_name

from retrier.integrations.celery_failures import unwrap
from retrier.integrations.owed import Hold, settle

_ENDING: ContextVar[Any] = ContextVar("the request that is being ended", default=None)


class Reporter(Protocol):
    """What is done about a task that has ended."""

    def give_up(self, request: Any, consumer: Any, error: BaseException, trace: object) -> None:
        """Publish a failure, once for each request. Never raises."""
        ...

    def confirm(self, headers: Any, name: str, task_id: str) -> None:
        """Confirm a retry that is done with. Never raises."""
        ...


def find_ending(task_id: str) -> Any:
    """Return the request whose end this thread is dealing with; None if it is another one."""
    request = _ENDING.get()
    return request if request is not None and request.id == task_id else None


def make_step(reporter: Reporter) -> Any:
    """Return the part of a worker that gives every task the requests of this module.

    It is made before any task is prepared to be consumed, whatever class its own requests have.
    """

    class RetrierStep(StartStopStep):  # type: ignore[misc]
        name = "retrier.integrations.celery"

        def __init__(self, consumer: Any, **given: Any) -> None:
            super().__init__(consumer, **given)
            for task in consumer.app.tasks.values():
                task.Request = _make_request_class(symbol_by_name(task.Request), reporter, consumer)

    return RetrierStep


def _make_request_class(base: Any, reporter: Reporter, consumer: Any) -> Any:
    class Request(base):  # type: ignore[misc]
        """A request that tells how it ended, before its message is acknowledged."""

        def on_failure(self, exc_info: Any, *given: Any, **named: Any) -> Any:
            with _holding(self):
                if named.get("return_ok"):
                    _end(reporter, self, consumer, exc_info)
                with _ending(self):
                    return super().on_failure(exc_info, *given, **named)

        def on_timeout(self, soft: Any, timeout: Any) -> Any:
            # Given back to its queue, it runs again. Celery sends `task_failure` all the same.
            is_given_back = self.task.acks_late and not self.task.acks_on_timeout
            with _holding(self), nullcontext() if is_given_back else _ending(self):
                return super().on_timeout(soft, timeout)

        def acknowledge(self) -> None:
            settle(self.retrier_hold, super().acknowledge)

        def reject(self, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 - Celery's signature
            settle(self.retrier_hold, partial(super().reject, requeue=requeue))

        def __init_subclass__(cls, **given: Any) -> None:
            # Celery derives one class more for each task, with an `on_success` of its own.
            super().__init_subclass__(**given)
            cls.on_success = _heeding_ends(cls.on_success)

        retrier_consumer = consumer
        retrier_told = False
        retrier_hold: Hold | None = None

    return Request


def _heeding_ends(on_success: Callable[..., Any]) -> Callable[..., Any]:
    """Return it for tasks that raise SystemExit or KeyboardInterrupt as well.

    Pools without processes tell of them here, with a value that Celery does not expect: the task
    would be forgotten without a word, and with `acks_late` be in hand for ever.
    """

    @wraps(on_success)
    def heeding(request: Any, ended: Any, **named: Any) -> Any:
        if isinstance(ended, ExceptionInfo):
            return request.on_failure(ended)
        return on_success(request, ended, **named)

    return heeding


def _end(reporter: Reporter, request: Any, consumer: Any, exc_info: Any) -> None:
    """Deal with a task that ran to its end and raised."""
    match error := unwrap(exc_info.exception):
        case Retry() | Reject(requeue=True):
            return
        case Ignore():
            # `Task.replace` raises it, too. The work is done, or has been handed on.
            reporter.confirm(request.message.headers, request.name, request.id)
        case MemoryError() if not request.acknowledged:
            # Celery ends the worker, and the broker delivers the message again.
            return
        case _:
            reporter.give_up(request, consumer, error, exc_info.traceback)


@contextmanager
def _holding(request: Any) -> Iterator[None]:
    """Let Celery acknowledge only afterwards, and not at all as long as the failure is owed.

    Celery acknowledges before it tells that a child was lost: a kill in between would lose it.
    """
    hold = request.retrier_hold
    if hold is not None:  # a time limit is told by two ways, one within the other or behind it
        yield
        return
    hold = request.retrier_hold = Hold()
    try:
        yield
    finally:
        if not hold.is_owed:
            hold.let_go()
            request.retrier_hold = None


@contextmanager
def _ending(request: Any) -> Iterator[None]:
    """Let the signal `task_failure` find the request: Celery decides whether it is sent."""
    before = _ENDING.set(request)
    try:
        yield
    finally:
        _ENDING.reset(before)
