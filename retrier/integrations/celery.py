"""Gives the failed tasks of a Celery app to Retrier, and confirms its retries: docs/celery.md."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from celery import signals
from celery.exceptions import NotRegistered, Reject

from retrier.clock import Clock, SystemClock
from retrier.errors import ConfigurationError
from retrier.integrations.account import LOG, Account, Deed, Metrics
from retrier.integrations.celery_failures import (
    count_runs,
    find_queue,
    make_confirming,
    make_failed,
    make_problem,
    name_node,
    to_bytes,
    unwrap,
)
from retrier.integrations.celery_publisher import Publication, Publisher, describe
from retrier.integrations.celery_requests import find_ending, make_step
from retrier.integrations.failures import FailedTask, make_confirmation
from retrier.integrations.handover import Handover, Handovers, describe_task
from retrier.integrations.owed import Hold
from retrier.worker.outcomes import Problem

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
        hold: Hold | None = None,
    ) -> None:
        rebuild = partial(tell_task, name, task_id, message, consumer)
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


def tell_task(name: str, task_id: str, message: Any, consumer: Any) -> str:
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
