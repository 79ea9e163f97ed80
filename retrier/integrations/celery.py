"""Gives the failed tasks of a Celery app to Retrier, and confirms its retries: docs/celery.md.

It does not publish by Celery's pool of producers: the connections of that do not wait for confirms.

Its requests live in the worker's main process. Only there is the message as it came, and only there
is it known that a child was lost or a time limit was exceeded.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from threading import Event, Lock, Timer
from typing import Any, Protocol

from billiard.einfo import ExceptionInfo
from celery import signals
from celery.bootsteps import StartStopStep
from celery.exceptions import (
    Ignore,
    NotRegistered,
    Reject,
    Retry,
    SoftTimeLimitExceeded,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.utils.imports import symbol_by_name

from retrier.clock import Clock, SystemClock
from retrier.domain.copies import PROBE_BODY
from retrier.domain.streams import find_said
from retrier.errors import ConfigurationError
from retrier.integrations.failures import (
    ConfirmationMessage,
    FailedTask,
    add_steps,
    describe_failure,
    keep_headers,
    make_confirmation,
)
from retrier.integrations.handover import (
    LOG,
    Account,
    Deed,
    Handover,
    Handovers,
    Metrics,
    UnackedHold,
    describe_task,
    settle,
)
from retrier.worker.outcomes import Problem, Reason

CONFIRM_TIMEOUT = 5.0
"""Seconds to wait for a confirmation. The worker does nothing else meanwhile."""
TRUSTED = 30.0
"""Seconds after its last use for which a connection is trusted: nobody sends its heartbeats."""

_AMQP = "amqp"
"""What Kombu calls the kind of a transport with confirms."""
_NACKED = "MessageNacked"
"""What Kombu raises when the queue refuses a message; it has no other name for us here."""


class PublishRefused(Exception):
    """The broker did not take a message over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A message for a queue. `shorter`: its headers, if those do not fit into a frame."""

    queue: str
    headers: Mapping[str, object]
    shorter: Mapping[str, object]
    body: bytes = b""
    content_type: str = "application/octet-stream"
    content_encoding: str = "binary"
    compression: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)


def describe(error: Exception) -> str:
    """Say why something was not published. Other texts than these may quote the message."""
    is_of_the_broker = getattr(error, "reply_code", 0)
    is_harmless = is_of_the_broker or isinstance(error, PublishRefused | OSError)
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


class Publisher:
    """Publishes from any process and thread of a worker."""

    def __init__(
        self, app: Any, clock: Clock | None = None, timeout: float = CONFIRM_TIMEOUT
    ) -> None:
        """Connect to nothing yet. `app`: of Celery, for which there are no types."""
        self._app = app
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._lines: dict[int, _Line] = {}

    def publish(self, publication: Publication) -> None:
        """Publish; return when the broker has confirmed it. Raises NotTaken, or what Kombu raises.

        A child has a line of its own, and leaves that of its parent alone: to drop it would shut
        down the connection of the parent.
        """
        made = _Line(self._app, self._clock, self._timeout)
        self._lines.setdefault(os.getpid(), made).publish(publication)

    def close(self) -> None:
        """Drop the connection of this process, if there is one; never raises."""
        line = self._lines.pop(os.getpid(), None)
        if line is not None:
            line.drop()


class _Line:
    """One connection, used by one thread at a time. It is opened again after an error."""

    def __init__(self, app: Any, clock: Clock, timeout: float) -> None:
        self._app = app
        self._clock = clock
        self._timeout = timeout
        self._lock = Lock()
        self._connection: Any = None
        self._raw: Any = None
        """What Kombu's connection is made of: only this can be dropped without the peer's help."""
        self._producer: Any = None
        self._used = 0.0
        self._returned: list[object] = []

    def publish(self, publication: Publication) -> None:
        """Publish. Three times: idle connections break, and long headers break any connection."""
        full, short = publication.headers, publication.shorter
        with self._lock:
            if self._is_tried(publication, full) or self._is_tried(publication, full):
                return
            self._send(publication, short)

    def _is_tried(self, publication: Publication, headers: Mapping[str, object]) -> bool:
        """Return whether it is published; False after an error with which trying again helps."""
        self._connect()
        try:
            self._send(publication, headers)
        except (PublishRefused, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 - Kombu's list of errors differs from broker to broker
            return False
        return True

    def _send(self, publication: Publication, headers: Mapping[str, object]) -> None:
        """Publish with these headers. After any error the connection is gone."""
        self._connect()
        self._returned.clear()
        try:
            self._confirmed(
                publication.body,
                routing_key=publication.queue,
                mandatory=True,
                content_type=publication.content_type,
                content_encoding=publication.content_encoding,
                compression=publication.compression,
                headers=dict(headers),
                **{"delivery_mode": 2, **publication.properties},
            )
        except Exception as error:
            # A queue that was full may refuse all that comes over the same channel, so not only
            # what broke the connection ends it.
            self.drop()
            if type(error).__name__ == _NACKED:
                raise PublishRefused(
                    f"the queue {publication.queue} refuses it: is it full?"
                ) from error
            raise
        self._used = self._clock.monotonic()
        if self._returned:
            raise PublishRefused(f"there is no queue {publication.queue}")

    def _connect(self) -> None:
        """Have a connection; not one that lay idle: what stands in between may have forgotten it."""
        if self._producer is not None and self._clock.monotonic() - self._used < TRUSTED:
            return
        self.drop()
        self._connection = self._app.connection_for_write(transport_options={})
        # Only AMQP has confirms and returns. Others answer when they have the message, make a queue
        # that is missing, and would keep the probe.
        is_amqp = self._connection.get_transport_cls().driver_type == _AMQP
        told = {"on_return": self._note_returned} if is_amqp else {}
        self._connection.transport_options |= self._options(is_amqp=is_amqp)
        try:
            self._connection.connect()
            self._raw = self._connection.connection
            self._producer = self._app.amqp.Producer(
                self._connection.channel(), auto_declare=False, **told
            )
            if is_amqp:
                self._probe()
        except Exception:
            self.drop()
            raise
        self._used = self._clock.monotonic()

    def _options(self, *, is_amqp: bool) -> dict[str, object]:
        """Return Kombu's options for a connection on which nothing is waited for without end."""
        if is_amqp:
            waits = {"read_timeout": self._timeout, "write_timeout": self._timeout}
            return {"confirm_publish": True, **waits}
        return {"socket_timeout": self._timeout, "socket_connect_timeout": self._timeout}

    def _probe(self) -> None:
        """Publish to a queue that nobody has, and wait for the confirmation.

        A broker under an alarm takes all that was sent to it when the alarm ends. What is tried
        again and again must not pile up there: only probes do, and it drops those.
        """
        kind = {"content_type": "application/octet-stream", "content_encoding": "binary"}
        self._confirmed(PROBE_BODY, routing_key="", delivery_mode=1, **kind)

    def _confirmed(self, body: bytes, **given: Any) -> None:
        """Publish, and wait for the confirmation. Raises TimeoutError, or what Kombu raises.

        The connection is cut when the time is over: Kombu's wait begins anew with each heartbeat of
        the broker, and would not end as long as an alarm lasts.
        """
        is_over = Event()
        watch = Timer(1.2 * self._timeout, _cut, (self._raw, is_over))
        watch.daemon = True
        watch.start()
        waits = {"timeout": self._timeout, "confirm_timeout": self._timeout}
        try:
            self._producer.publish(body, exchange="", **waits, **given)
        except Exception as error:
            if is_over.is_set():
                raise TimeoutError(f"no answer in {self._timeout:g} seconds") from error
            raise
        finally:
            watch.cancel()

    def _note_returned(self, error: object, *_about: object) -> None:
        self._returned.append(error)

    def drop(self) -> None:
        """Forget the connection, and only then close it: whatever that raises, the next is new.

        The socket goes first. A peer that is not there would let a goodbye wait for ever.
        """
        raw, connection = self._raw, self._connection
        self._raw = self._connection = self._producer = None
        with suppress(Exception):
            raw.collect()
        with suppress(Exception):
            connection.close()


def _cut(raw: Any, is_over: Event) -> None:
    is_over.set()
    with suppress(Exception):
        raw.sock.shutdown(socket.SHUT_RDWR)


LATE = (TimeoutError, TimeLimitExceeded, SoftTimeLimitExceeded)
EXPIRES = "expires"
_OF_THE_BODY = frozenset({"content_type", "content_encoding", "application_headers"})
_OF_THE_DELIVERY = frozenset({"delivery_info", "delivery_tag", "body_encoding"})
"""What Redis has among the properties. Kombu would write the error queue into the message itself."""
_NOT_KEPT = _OF_THE_BODY | _OF_THE_DELIVERY | {"expiration", "user_id"}
"""A failure must not vanish, and the broker may refuse the user_id of another user."""
REDELIVERED = "redelivered"
"""The header that Kombu adds on Redis when it gives a message out again."""


def find_queue(message: Any, consumer: Any) -> str:
    """Return the queue from which Celery's consumer took the message.

    By its tag: exchange and routing key do not tell it where a queue is bound by a pattern, or
    where Celery's delays moved the message. Without the tag, as on Redis, they are all there is.
    """
    info = message.delivery_info or {}
    tasks = getattr(consumer, "task_consumer", None)
    tags = getattr(tasks, "_active_tags", {})
    found = (queue for queue, tag in list(tags.items()) if tag == info.get("consumer_tag"))
    exchange, key = info.get("exchange"), str(info.get("routing_key") or "")
    bound = (
        each.name
        for each in getattr(tasks, "queues", ())
        if exchange and each.exchange.name == exchange and each.routing_key == key
    )
    return next(found, None) or next(bound, None) or key


def unwrap(error: Any) -> Any:
    """Return the exception itself: a pool may wrap it together with its trace.

    A pool without processes calls a task that wants to end its process a lost worker.
    """
    found = getattr(error, "exc", error) if type(error).__name__ == _WRAPPED else error
    cause = getattr(found, "__context__", None)
    is_no_loss = isinstance(found, WorkerLostError) and isinstance(cause, _ENDS)
    return cause if is_no_loss else found


_WRAPPED = "ExceptionWithTraceback"
_ENDS = (SystemExit, KeyboardInterrupt)


def make_problem(error: BaseException, trace: object) -> Problem:
    """Return what the failure is told with. A rejection is told by its reason."""
    told = error.reason if isinstance(error, Reject) and error.reason is not None else error
    return Problem(
        reason=Reason.TIMEOUT if isinstance(told, LATE) else Reason.EXCEPTION,
        type=_type_of(told) if isinstance(told, BaseException) else type(error).__name__,
        message=_say(told),
        stack_trace=str(trace or ""),
        steps=find_said(told) if isinstance(told, BaseException) else find_said(error),
    )


def count_runs(headers: Mapping[str, object]) -> int:
    """Return how often the task has run: once, and once for each retry of its own."""
    retries = headers.get("retries")
    return retries + 1 if isinstance(retries, int) else 1


def name_node(consumer: Any) -> str | None:
    """Return the name of the worker among those of its app: `packers@box-1`.

    It is no part of the endpoint. `celery multi` names each worker apart, and a task that is
    handed from one to the other would become another message.
    """
    return str(getattr(consumer, "hostname", "")) or None


def make_confirming(confirmation: ConfirmationMessage) -> Publication:
    """Return the message that confirms a retry."""
    headers = confirmation.headers
    return Publication(queue=confirmation.queue, headers=headers, shorter=headers)


def make_failed(message: Any, failed: FailedTask, task_id: str, error_queue: str) -> Publication:
    """Return the message as it came, with headers that say why it failed.

    The time at which the task expires is taken away: Celery would drop its retry unseen.
    """
    kept = keep_headers(message.headers or {})
    if kept.get(EXPIRES) is not None:
        kept[EXPIRES] = None
    if kept.get(REDELIVERED) is True:
        del kept[REDELIVERED]
    kept |= add_steps(kept, failed.problem)
    given = message.properties or {}
    properties = {name: value for name, value in given.items() if name not in _NOT_KEPT}
    return Publication(
        queue=error_queue,
        headers={**kept, **describe_failure(failed)},
        shorter={**kept, **describe_failure(failed, in_short=True)},
        body=to_bytes(message.body),
        content_type=message.content_type or "application/octet-stream",
        content_encoding=message.content_encoding or "binary",
        compression=_text(kept.get("compression")),
        properties={"message_id": task_id, **properties},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def to_bytes(body: Any) -> bytes:
    """Return the body as it came over the wire."""
    return body.encode() if isinstance(body, str) else bytes(body)


def _type_of(error: BaseException) -> str:
    """Return the name of the class; of one that could not be pickled it is only told."""
    return str(getattr(error, "exc_cls_name", None) or type(error).__name__)


def _say(told: object) -> str:
    try:
        return str(told)
    except Exception as second:  # noqa: BLE001 - a `__str__` of the user's
        return f"its text cannot be had: {type(second).__name__}"


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
        retrier_hold: UnackedHold | None = None

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
    hold = request.retrier_hold = UnackedHold()
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


_MARK = "retrier"
_NAMED = {"error_queue": "a queue", "name": "the application"}
FINISH_WITHIN = 5.0
"""Seconds that the end of a process waits for what it owes."""


class Installation:
    """What `install` has added to an app. `counts`: what was published, in this process."""

    def __init__(
        self, app: Any, error_queue: str, name: str, metrics: Metrics | None, clock: Clock
    ) -> None:
        self._app = app
        self._error_queue = error_queue
        self._name = name
        self._clock = clock
        self._account = Account(metrics)
        self._handovers = Handovers(self._account)
        self._publisher = Publisher(app, clock)
        self._late_publisher = Publisher(app, clock)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each deed was done in this process."""
        return self._account.counts

    def give_up(self, request: Any, consumer: Any, error: BaseException, trace: object) -> None:
        """Publish the failure of a task, once. Never raises.

        Celery tells the same end twice: a hard time limit as a failure, and as a time limit.
        """
        if request.retrier_told:
            return
        request.retrier_told = True
        told = partial(make_problem, error, trace)
        # A task that never began has no process of its own: then it is this one.
        process = getattr(request, "worker_pid", None) or os.getpid()
        hold = None if request.acknowledged else request.retrier_hold
        message = request.message
        self._publish_failure(request.type, request.id, message, consumer, process, told, hold)

    def confirm(self, headers: Any, name: str, task_id: str) -> None:
        """Confirm the retry, if the task is one. Never raises."""
        confirmation = make_confirmation(headers or {}, self._clock.now())
        if confirmation is not None:
            made = make_confirming(confirmation)
            self._hand_over(made, name, task_id, Deed.CONFIRMED, Deed.UNCONFIRMED)

    def on_success(self, sender: Any, **_: Any) -> None:
        """Confirm the retry: in the process of the task, before the message is acknowledged."""
        if sender.app is self._app:
            self.confirm(sender.request.headers, sender.name, sender.request.id)

    def on_failure(self, sender: Any, task_id: str, **told: Any) -> None:
        """Publish a failure that the worker itself has found out: a lost child, a time limit."""
        request = find_ending(task_id)
        error = unwrap(told.get("exception"))
        if request is None or sender.app is not self._app or isinstance(error, Reject):
            return
        einfo = told.get("einfo")
        self.give_up(request, request.retrier_consumer, error, getattr(einfo, "traceback", ""))

    def on_unknown(self, sender: Any, message: Any, name: str, **told: Any) -> None:
        """Publish a message whose task this worker does not know. Celery drops it."""
        if sender.app is self._app:
            problem = partial(make_problem, NotRegistered(name), "")
            self._publish_failure(name, told["id"], message, sender, os.getpid(), problem)

    def finish(self, **_: Any) -> None:
        """Try once more what is owed, when the process ends."""
        self._handovers.finish(FINISH_WITHIN)

    def _publish_failure(
        self,
        name: str,
        task_id: str,
        message: Any,
        consumer: Any,
        process: int,
        tell: Callable[[], Problem],
        hold: UnackedHold | None = None,
    ) -> None:
        rebuild = partial(describe_celery_task, name, task_id, message, consumer)
        try:
            failed = FailedTask(
                queue=find_queue(message, consumer),
                name=name,
                worker=self._name,
                process=process,
                node=name_node(consumer),
                attempts=count_runs(message.headers or {}),
                at=self._clock.now(),
                problem=tell(),
            )
            made = make_failed(message, failed, task_id, self._error_queue)
        except Exception as error:  # noqa: BLE001 - a message or an exception of the user's
            why = f"{describe(error)}. The task: {rebuild()}"
            self._account.note(Deed.UNPUBLISHED, name, task_id, why)
            return
        extra: dict[str, Any] = {"rebuild": rebuild}
        if hold is not None:
            # Celery sets its prefetch together with an acknowledgement, and waits for the answer
            # on the connection that its main thread reads: another thread would take its frames.
            settle_by = consumer.call_soon
            extra |= {"hold": hold, "is_void": partial(is_gone, message), "settle_by": settle_by}
        self._hand_over(made, name, task_id, Deed.PUBLISHED, Deed.UNPUBLISHED, **extra)

    def _hand_over(
        self, made: Publication, name: str, task_id: str, done: Deed, left: Deed, **extra: Any
    ) -> None:
        self._handovers.hand_over(
            Handover(
                task=name,
                task_id=task_id,
                queue=made.queue,
                done=done,
                left=left,
                publish=partial(self._publisher.publish, made),
                publish_late=partial(self._late_publisher.publish, made),
                describe=describe,
                size=len(made.body),
                **extra,
            )
        )


def describe_celery_task(name: str, task_id: str, message: Any, consumer: Any) -> str:
    """Return what is needed to rebuild a task. Never raises."""
    try:
        queue, headers = find_queue(message, consumer), message.headers or {}
        return describe_task(name, task_id, queue, headers, to_bytes(message.body))
    except Exception:  # noqa: BLE001 - a message of the user's
        LOG.exception("what the task %s (%s) was made of cannot be said", name, task_id)
        return task_id


def is_gone(message: Any) -> bool:
    """Say whether the connection of an unacknowledged message has ended: it will come again."""
    channel = getattr(message, "channel", None)
    return channel is not None and getattr(channel, "connection", None) is None


def install(
    app: Any,
    error_queue: str = "error",
    *,
    name: str = "celery",
    metrics: Metrics | None = None,
    clock: Clock | None = None,
) -> Installation:
    """Have every failed task of the app's workers put on the error queue, and retries confirmed.

    `name` is the application's in the failures, their endpoint; keep it. `metrics` is called with
    a deed and the name of a task. Raises ConfigurationError.
    """
    given = {"error_queue": error_queue, "name": name}
    problems = [f"{key} must name {what}" for key, what in _NAMED.items() if not given[key]]
    if problems:
        raise ConfigurationError(problems)
    if hasattr(app, _MARK):
        raise ConfigurationError([f"retrier is installed in the app {app.main or app} already"])
    installation = Installation(app, error_queue, name, metrics, clock or SystemClock())
    setattr(app, _MARK, installation)
    app.steps["consumer"].add(make_step(installation))
    signals.task_success.connect(installation.on_success, weak=False)
    signals.task_failure.connect(installation.on_failure, weak=False)
    signals.task_unknown.connect(installation.on_unknown, weak=False)
    signals.worker_shutdown.connect(installation.finish, weak=False)
    signals.worker_process_shutdown.connect(installation.finish, weak=False)
    return installation
