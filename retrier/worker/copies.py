"""The messages that a worker publishes: failures, postponed ones, confirmations, results."""

import json
import os
import socket
from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from retrier.domain import headers
from retrier.domain.dialects import RETRIER
from retrier.domain.dialects import retrier as names
from retrier.domain.streams import unite
from retrier.domain.text import clean
from retrier.domain.wire import Delivery, Edit, Outgoing, Properties, PropertyCodec
from retrier.worker.hand import Held
from retrier.worker.outcomes import Broken, Done, Problem, Reason, SecondCopy, TaskStatus

LONGEST_MESSAGE = 4 * 1024
LONGEST_TRACE = 32 * 1024
LONGEST_SHORT = 256
"""Bytes. All properties of a message have to fit into one frame, with those it came with."""

UNTOLD = "ResultNotTold"
"""The type of the error in the result of work that is done, whose value is no JSON."""

_PERSISTENT = {"delivery_mode": 2}
_STATUS = {True: TaskStatus.FAILURE, False: TaskStatus.SUCCESS}


def make_again(codec: PropertyCodec, held: Held, own_user: str | None) -> Outgoing:
    """Return the message for the tail of its own queue, with what is counted of it.

    Left out: CC and BCC (the broker would copy it to other queues), the broker's own counters (they
    are about the message that is acknowledged), and a user_id that the broker would refuse.
    """
    edit = Edit(
        drop_headers=_left_out_again,
        set_headers={
            **({headers.WORKER_CRASHES: str(held.crashes)} if held.crashes else {}),
            **({headers.WORKER_RETURNS: str(held.returns)} if held.returns else {}),
            **held.stamps,
            **_steps(held),
        },
        drop_fields=_foreign_user(held.properties, own_user),
    )
    return _changed(codec, held.delivery, held.delivery.queue, edit)


def make_failed(
    codec: PropertyCodec,
    held: Held,
    broken: Broken,
    *,
    queue: str,
    worker: str,
    at: datetime,
    own_user: str | None,
    in_short: bool = False,
) -> Outgoing:
    """Return the message for the error queue: as it came, with headers that say why it failed.

    Without an expiration: a failure must not vanish. Without our counts of crashes and of
    timeouts: its retry is a new beginning. `in_short` leaves the stack trace out, for what does not fit into a frame.
    """
    edit = Edit(
        drop_headers=_left_out_of_failures,
        set_headers={
            **_failure(held, broken, worker, at),
            **_steps(held),
            **describe_exception(broken.problem, in_short=in_short),
        },
        drop_fields=_foreign_user(held.properties, own_user) | {"expiration"},
    )
    return _changed(codec, held.delivery, queue, edit)


def make_confirmation(
    codec: PropertyCodec, properties: Properties, at: datetime
) -> Outgoing | None:
    """Return what tells Retrier that the retry succeeded; None if nobody waits for it."""
    unique_id = properties.text(headers.UNIQUE_MESSAGE_ID)
    queue = properties.text(headers.ACKNOWLEDGEMENT_QUEUE)
    if unique_id is None or queue is None:
        return None
    stamps = {headers.RETRY_SUCCESSFUL: at.isoformat(), headers.UNIQUE_MESSAGE_ID: unique_id}
    edit = Edit(set_headers=stamps, set_fields=_PERSISTENT)
    return Outgoing(queue=queue, raw=codec.edit(codec.empty, edit), body=b"")


def make_result(
    codec: PropertyCodec, held: Held, ended: Done | Broken | SecondCopy, queue: str, worker: str
) -> Outgoing:
    """Return the result of a message for the output queue."""
    message_id = find_id(held.properties)
    fields: dict[str, int | str] = {**_PERSISTENT, "content_type": "application/json"}
    if message_id is not None:
        fields["correlation_id"] = message_id
    raw = codec.edit(codec.empty, Edit(set_fields=fields))
    return Outgoing(queue=queue, raw=raw, body=_result_body(ended, message_id, worker))


def find_id(properties: Properties) -> str | None:
    """Return the id that the sender gave the message."""
    return RETRIER.message_id(properties)


def _result_body(ended: Done | Broken | SecondCopy, task: str | None, worker: str) -> bytes:
    """Return the JSON of a result. The handler's part of it is JSON already, and put in as it is."""
    if isinstance(ended, SecondCopy) and ended.result is not None:
        return ended.result
    status, found = TaskStatus.SUCCESS, b"null"
    error: Mapping[str, str] | None = None
    match ended:
        case SecondCopy():
            pass
        case Done(result):
            status, found = _STATUS[ended.by_own_account], result
            if ended.untold is not None:
                message = f"the result cannot be told: {ended.untold}"
                error = {"type": UNTOLD, "message": message, "stackTrace": ""}
        case Broken(problem):
            is_invalid = problem.reason is Reason.INVALID
            status = TaskStatus.INVALID if is_invalid else TaskStatus.EXCEPTION
            error = _told(problem)
        case _ as never:
            assert_never(never)
    about = {"taskStatus": status, "taskId": task, "worker": worker, "error": error}
    return json.dumps(about).encode()[:-1] + b', "result": ' + found + b"}"


def _told(problem: Problem) -> Mapping[str, str]:
    trace = problem.stack_trace
    return {"type": problem.type, "message": problem.message, "stackTrace": trace}


def _failure(held: Held, broken: Broken, worker: str, at: datetime) -> Mapping[str, str]:
    told = {
        names.FAILED_QUEUE: held.delivery.queue,
        names.TIME_OF_FAILURE: at.isoformat(),
        **describe_reason(broken.problem),
        names.ATTEMPTS: str(broken.attempts),
        headers.ENDPOINT: worker,
        **describe_place(os.getpid()),
    }
    is_typed = held.properties.text(headers.MESSAGE_TYPE) or held.properties.fields.get("type")
    if held.handler.message_type is not None and not is_typed:
        told[headers.MESSAGE_TYPE] = held.handler.message_type
    return told


def _steps(held: Held) -> Mapping[str, str]:
    """Return the header of completed steps, if the handler has said some."""
    known = held.properties.text(headers.COMPLETED_STEPS)
    steps = unite([known, *held.said]) if held.said else None
    return {} if steps is None else {headers.COMPLETED_STEPS: clean(steps)}


def describe_reason(problem: Problem) -> Mapping[str, str]:
    """Return the header with the reason; none of an ordinary exception: its type says more."""
    return {} if problem.reason is Reason.EXCEPTION else {names.REASON: problem.reason}


def describe_place(process: int, node: str | None = None) -> Mapping[str, str]:
    """Return the headers that tell on which machine it failed, in which process of it."""
    told = {names.HOST: clean(socket.gethostname()), names.PROCESS: str(process)}
    return told if node is None else told | {names.NODE: clean(node)}


def describe_exception(problem: Problem, *, in_short: bool) -> Mapping[str, str]:
    """Return the failure headers that tell the exception; all fit into one frame."""
    message = clean(problem.message, LONGEST_SHORT if in_short else LONGEST_MESSAGE)
    told = {f"{names.EXCEPTION}Type": clean(problem.type), f"{names.EXCEPTION}Message": message}
    if problem.stack_trace and not in_short:
        told[f"{names.EXCEPTION}StackTrace"] = _shorten(problem.stack_trace)
    return told


def _shorten(trace: str) -> str:
    """Return a stack trace that fits: its beginning and its end, where the exception is."""
    whole = clean(trace, LONGEST_TRACE)
    if len(trace.encode("utf-8", "replace")) <= LONGEST_TRACE:
        return whole
    half = LONGEST_TRACE // 2 - 16
    end = trace.encode("utf-8", "replace")[-half:].decode("utf-8", "ignore")
    return clean(trace, half) + "\n...\n" + clean(end, half)


def _changed(codec: PropertyCodec, delivery: Delivery, queue: str, edit: Edit) -> Outgoing:
    return Outgoing(queue=queue, raw=codec.edit(delivery.raw, edit), body=delivery.body)


def _foreign_user(properties: Properties, own_user: str | None) -> frozenset[str]:
    is_foreign = properties.fields.get("user_id") not in (None, own_user)
    return frozenset({"user_id"}) if is_foreign else frozenset()


def _left_out_again(name: str) -> bool:
    return name in headers.FAN_OUT or name in headers.BROKER_COUNTERS


def _left_out_of_failures(name: str) -> bool:
    # The completed steps are not about the failure: the consumer wrote them, and needs them again.
    is_old = RETRIER.strips(name) and name != headers.COMPLETED_STEPS
    return _left_out_again(name) or is_old or name in headers.OF_WORKERS
