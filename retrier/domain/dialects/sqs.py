"""The dialect of Amazon SQS: a message on a dead-letter queue, and what SQS says of it.

Lambda, where it gives up an asynchronous call, sends an envelope with the reason, and in it what the
function was called with: that goes back. Only if Lambda itself put it here: what SQS moved here from
a queue was sent to the consumer of that queue like that, so it goes back as it came. So does what SNS
delivered; only the reason is looked for in one of Lambda's inside.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from datetime import datetime

from retrier.domain.dialects.dialect import (
    LARGEST_COUNT,
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Original,
    Unintelligible,
    count,
    is_text,
    table_of,
)
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import COMPLETED_STEPS, ENDPOINT, MESSAGE_TYPE, STREAM
from retrier.domain.json_texts import texts_of_members
from retrier.domain.times import from_epoch, parse_iso_time
from retrier.domain.wire import Properties

FACT = "SQS."
"""The prefix of what SQS itself says of a message: such a header is no attribute."""
SOURCE, ONLY_SOURCE = "DeadLetterQueueSourceArn", "OnlySource"
SOURCE_QUEUE = "SourceQueue"
"""The queue of that ARN, as it is called here."""
RECEIVED, SENT = "ApproximateReceiveCount", "SentTimestamp"
FIRST_RECEIVED = "ApproximateFirstReceiveTimestamp"
OF_LAMBDA = ("RequestID", "ErrorCode", "ErrorMessage")
OF_EVENTBRIDGE = (
    "RULE_ARN",
    "TARGET_ARN",
    "ERROR_CODE",
    "ERROR_MESSAGE",
    "EXHAUSTED_RETRY_CONDITION",
    "RETRY_ATTEMPTS",
)
"""Attributes that Lambda and EventBridge write on what they put into a dead-letter queue."""
RECEIVED_TOO_OFTEN = "delivery_limit"
_SQS_ARN = ":sqs:"
_LARGEST_ENVELOPE = 1024 * 1024

DECLARED = Declared(
    library="Amazon SQS",
    recognised_by=f"what SQS says of each message (`{FACT}{RECEIVED}`), where no library's headers are",
    feeds={
        "queue": f"`{SOURCE}`, else `destination`, else the only queue that dead-letters to the error queue;"
        " of EventBridge `TARGET_ARN`; of Lambda's envelope not known",
        "endpoint": f"`{ENDPOINT}`; of Lambda's envelope the function, of EventBridge the rule",
        "exception_type": "Lambda's envelope: `responsePayload.errorType`; `ErrorCode`, `ERROR_CODE`",
        "exception_message": "Lambda's envelope: `responsePayload.errorMessage`; `ErrorMessage`,"
        " `ERROR_MESSAGE`; else that it was received too often, in words",
        "stack_trace": "Lambda's envelope: `responsePayload.stackTrace`",
        "failure_reason": "Lambda's envelope: `requestContext.condition`; `EXHAUSTED_RETRY_CONDITION`;"
        f" else `{RECEIVED_TOO_OFTEN}`",
        "time_of_failure": f"Lambda's envelope: `timestamp`; else `{FIRST_RECEIVED}`",
        "attempts_reported": f"Lambda's envelope: `approximateInvokeCount`; else `{RECEIVED}`, without"
        " our own reading",
        "time_sent": f"`{SENT}`",
        "message_type": f"`{MESSAGE_TYPE}`; body: `headers.task` of Celery, the topic of SNS",
        "message_id": "`MessageId` of SQS",
    },
    removes=(f"{FACT}*",),
    varies=(*OF_LAMBDA, *OF_EVENTBRIDGE),
    comes_back="keeps all attributes, and is another message to SQS",
)


def name_in_arn(arn: str) -> str:
    """Return the name in an ARN: its last part."""
    return arn.rpartition(":")[2]


class SqsDialect(Library):
    """What stands on a dead-letter queue of SQS."""

    name = "sqs"
    mark = f"{FACT}{RECEIVED}"
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:  # noqa: ARG002 - SQS says it
        """Say whether SQS delivered the message."""
        return self.mark in properties.headers

    def was_moved(self, properties: Properties) -> bool:
        """Say whether SQS says that it moved the message here from the queue of its consumer."""
        return f"{FACT}{SOURCE}" in properties.headers

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - the message says where it came from
    ) -> FailureDetails | Unintelligible:
        """Read what SQS, Lambda or EventBridge say of it."""
        envelope = _find_lambdas(properties, body) or _find_lambdas(properties, _in_sns(body))
        if envelope is not None:
            return _read_lambda(properties, envelope, otherwise or NOT_KNOWN)
        moved = _fact(properties, SOURCE_QUEUE) or name_in_arn(_fact(properties, SOURCE) or "")
        only = _fact(properties, ONLY_SOURCE)
        target = _target(properties)
        queue = moved or otherwise or target or only or None
        if queue is None and "RULE_ARN" in properties.headers:
            queue = NOT_KNOWN
        if queue is None:
            return Unintelligible(
                f"SQS does not say from which queue it was moved ({SOURCE}), and not exactly one queue "
                "has this one as its dead-letter queue: name the destination of the error queue"
            )
        # A read of ours counts as well. On a queue that programs send to, all of them are ours.
        number = count(_fact(properties, RECEIVED)) if moved or only else None
        attempts = max(number - 1, 1) if number is not None else None
        text = properties.text
        told = text("ErrorMessage") or text("ERROR_MESSAGE")
        if told is None and attempts is not None:
            told = f"received too often on {queue}, {attempts} times"
        too_often = RECEIVED_TOO_OFTEN if attempts is not None else None
        rule = text("RULE_ARN")
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=text(ENDPOINT) or (name_in_arn(rule) if rule else None),
            message_type=text(MESSAGE_TYPE) or _type_in(body),
            exception_type=text("ErrorCode") or text("ERROR_CODE"),
            exception_message=told,
            failure_reason=text("EXHAUSTED_RETRY_CONDITION") or too_often,
            time_of_failure=_milliseconds(_fact(properties, FIRST_RECEIVED)),
            time_sent=_milliseconds(_fact(properties, SENT)),
            attempts_reported=attempts,
            completed_steps=text(COMPLETED_STEPS),
            stream_id=text(STREAM),
        )

    def unwrap(self, properties: Properties, body: bytes) -> Original | None:
        """Return what Lambda's function was called with, byte for byte, if it is Lambda's envelope."""
        envelope = _find_lambdas(properties, body)
        payload = None if envelope is None else envelope.get(_PAYLOAD)
        if payload is None:
            return None
        return Original(
            payload.encode(), properties.headers, properties.fields, keeps_properties=True
        )


def _fact(properties: Properties, name: str) -> str | None:
    return properties.text(f"{FACT}{name}")


def _milliseconds(text: str | None) -> datetime | None:
    """Read a time in milliseconds since 1970."""
    number = int(text) if text and text.isdecimal() and len(text) < _MOST_DIGITS else None
    return None if number is None else from_epoch(number // 1000)


_MOST_DIGITS = 16


def _target(properties: Properties) -> str | None:
    """Return the queue to which EventBridge could not send it."""
    target = properties.text("TARGET_ARN") or ""
    return name_in_arn(target) if _SQS_ARN in target else None


def _find_lambdas(properties: Properties, body: bytes) -> Mapping[str, str] | None:
    """Return the members of an envelope with which Lambda says what it gave up, as JSON texts.

    None if it is none. Programs have members of these names, too, so all that Lambda always writes has
    to be there. None also for what SQS moved here: there the envelope was what a consumer failed with.
    The record of a batch (of Kinesis, say) is one without what the function was called with.
    """
    is_large = len(body) > _LARGEST_ENVELOPE
    if b"approximateInvokeCount" not in body or is_large or _fact(properties, SOURCE):
        return None
    try:
        told = texts_of_members(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return None
    context = table_of(told.get("requestContext", ""))
    function = is_text(context.get("functionArn")) or ""
    is_one = (
        _is_json_text(told.get("version"))
        and _is_json_text(told.get("timestamp"))
        and function.startswith("arn:")
        and _OF_FUNCTIONS in function
        and is_text(context.get("requestId")) is not None
        and is_text(context.get("condition")) not in {None, _SUCCESS}
        and count(context.get("approximateInvokeCount")) is not None
    )
    return told if is_one else None


_PAYLOAD = "requestPayload"
_OF_FUNCTIONS = ":lambda:"
_SUCCESS = "Success"
"""What stands as condition in the records of calls that did not fail."""


def _is_json_text(told: str | None) -> bool:
    return told is not None and told.startswith('"') and told != '""'


def _in_sns(body: bytes) -> bytes:
    """Return what SNS delivered in an envelope; nothing of anything else."""
    told = table_of(body, _LARGEST_ENVELOPE) if b'"Notification"' in body else {}
    inside = told.get("Message") if told.get("Type") == "Notification" else None
    return inside.encode(errors="replace") if isinstance(inside, str) else b""


def _read_lambda(properties: Properties, envelope: Mapping[str, str], queue: str) -> FailureDetails:
    context = table_of(envelope["requestContext"])
    answer = table_of(envelope.get("responsePayload", ""), _LARGEST_ENVELOPE)
    trace = answer.get("stackTrace")
    lines = trace if isinstance(trace, list) else []
    function = is_text(context.get("functionArn")) or ""
    parts = function.split(":")
    times = count(context.get("approximateInvokeCount"))
    return FailureDetails(
        queue=queue,
        destination=queue,
        endpoint=parts[6] if len(parts) > _FUNCTION else is_text(function),
        message_type=properties.text(MESSAGE_TYPE),
        exception_type=is_text(answer.get("errorType")),
        exception_message=is_text(answer.get("errorMessage")),
        stack_trace="\n".join(str(each).rstrip() for each in lines) or is_text(trace),
        failure_reason=is_text(context.get("condition")),
        time_of_failure=parse_iso_time(envelope["timestamp"].strip('"')),
        time_sent=_milliseconds(_fact(properties, SENT)),
        attempts_reported=None if times is None else min(times, LARGEST_COUNT),
    )


_FUNCTION = 6
"""The place of the function's name in its ARN."""


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _type_in(body: bytes) -> str | None:
    """Return what a body says it asks for: the task of Celery's envelope, or the topic of SNS."""
    told = table_of(_decoded(body))
    if told.get("Type") == "Notification":
        topic = is_text(told.get("TopicArn"))
        # Not its subject: that is a text for people, and may be another one in each message.
        return name_in_arn(topic) if topic else None
    if "body" not in told:
        return None
    return is_text(_table(told.get("headers")).get("task"))


def _decoded(body: bytes) -> bytes:
    """Return what stands in base64: Celery writes its envelope so. Anything else as it is."""
    if not body.startswith(b"ey"):
        return body
    try:
        return b64decode(body, validate=True)
    except (NotBase64, ValueError):
        return body
