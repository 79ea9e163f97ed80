"""The dialect of CAF's worker framework: a task that a worker gave up, as it lies on a queue of results.

The task itself does not stand inside: its data are those of the failure, and `to` is the queue of
results. So nothing is made of it, and it names no queue to which a retry could go.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping

from retrier.domain.dialects.dialect import (
    LARGEST_BODY,
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    amqp_field,
    count,
    is_text,
    table_of,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import WORKER_CRASHES
from retrier.domain.times import from_epoch
from retrier.domain.wire import Properties

STATUS = "taskStatus"
CLASSIFIER = "taskClassifier"
FAILED = frozenset({"RESULT_FAILURE", "RESULT_EXCEPTION", "INVALID_TASK"})
REASONS = {"INVALID_TASK": "invalid_message"}
"""Where Retrier has a word of its own; any other status is its own reason."""

_MARK = f'"{STATUS}"'.encode()
_THROWN = re.compile(
    r"class (?P<type>[A-Za-z_$][\w$.]*) (?P<text>.*?)(?= [\w$.<>/]+\([^()]*\)|$)", re.DOTALL
)

DECLARED = Declared(
    library="CAF worker framework",
    recognised_by=f"a JSON body with `{CLASSIFIER}`, whose `{STATUS}` is one of a failure",
    feeds={
        "queue": "not known: `to` is the queue of results; `destination`, or `destinations` by worker",
        "endpoint": "body: `sourceInfo.name`",
        "exception_type": "body: `taskData`, if that is the text of an exception",
        "exception_message": "body: `taskData`, if that is the text of an exception",
        "stack_trace": "body: `taskData`, if that is the text of an exception",
        "failure_reason": f"body: `{STATUS}`; of an `INVALID_TASK` *invalid_message*",
        "attempts_reported": f"`{WORKER_CRASHES}` + 1",
        "message_type": f"body: `{CLASSIFIER}`",
        "message_id": "`message_id`, else body: `taskId`",
        "time_sent": "`timestamp`",
    },
    comes_back="a worker passes on what has another queue in `to`, so it comes back unhandled",
)


class CafDialect(Library):
    """The envelope of a task: status, number of retries, and what the worker put out."""

    name = "caf"
    mark = STATUS
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - the body says it
        """Say whether the body is a task that failed."""
        if len(body) > LARGEST_BODY or not body.startswith(b"{") or _MARK not in body:
            return False
        return _is_failed(table_of(body))

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - it is a queue of results
    ) -> FailureDetails:
        """Read the envelope, and of its data the text of an exception."""
        told = table_of(body)
        queue = otherwise or NOT_KNOWN
        status = is_text(told.get(STATUS))
        text = _text_of(told.get("taskData"))
        thrown = _THROWN.match(text or "")
        source = told.get("sourceInfo")
        crashes = count(properties.headers.get(WORKER_CRASHES))
        is_invalid = status in REASONS
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=is_text(source.get("name")) if isinstance(source, dict) else None,
            message_type=is_text(told.get(CLASSIFIER)) or amqp_field(properties, "type"),
            exception_type=thrown["type"] if thrown else None,
            exception_message=thrown["text"] or None if thrown else text if is_invalid else None,
            stack_trace=text if thrown else None,
            failure_reason=REASONS.get(status or "", status),
            time_sent=from_epoch(properties.fields.get("timestamp")),
            attempts_reported=None if crashes is None else crashes + 1,
            id_in_body=None if self.message_id(properties) else is_text(told.get("taskId")),
        )


def _is_failed(told: Mapping[str, object]) -> bool:
    return isinstance(told.get(CLASSIFIER), str) and told.get(STATUS) in FAILED


def _text_of(data: object) -> str | None:
    """Return the text that a worker serialised into a task's data; None for anything else."""
    try:
        text = b64decode(data if isinstance(data, str) else "", validate=True).decode()
    except ValueError:  # UnicodeDecodeError is one
        return None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = text
    return is_text(told)
