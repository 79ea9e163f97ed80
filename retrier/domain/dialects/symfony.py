r"""The dialect of Symfony Messenger: messages on its failure transport.

Its serializer for JSON writes stamps as headers; the one of PHP writes all of it into the body,
which is never unserialised: class and text of the exception are looked for in it as they stand. A
body of PHP is an envelope: what the sender sent stands in it, beside the stamps of the failure.
"""

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace

from retrier.domain.dialects.dialect import (
    LARGEST_BODY,
    LOST_NEXT,
    NOT_KNOWN,
    NOWHERE,
    Declared,
    FoundOn,
    Library,
    Original,
    amqp_field,
    count,
    is_text,
)
from retrier.domain.dialects.php import cut_stamps
from retrier.domain.dialects.rabbitmq import rejecting_queue
from retrier.domain.failed_message import FailureDetails
from retrier.domain.times import parse_iso_time
from retrier.domain.values import dataclass
from retrier.domain.wire import Properties

STAMPS = r"Symfony\Component\Messenger\Stamp" + "\\"
OF_FAILURE = tuple(
    STAMPS + each
    for each in (
        "SentToFailureTransportStamp",
        "ErrorDetailsStamp",
        "RedeliveryStamp",
        "DelayStamp",
    )
)
"""Classes of the stamps that no retry carries, in headers or in a body."""
SENT_TO_FAILURE, ERROR, REDELIVERY, DELAY = (f"X-Message-Stamp-{each}" for each in OF_FAILURE)
TYPE = "type"

DECLARED = Declared(
    library="Symfony Messenger",
    recognised_by="header `X-Message-Stamp-...SentToFailureTransportStamp`, or a body that PHP"
    " serialised from Messenger's envelope",
    feeds={
        "queue": "not known: no header names it; `destination`, or `destinations` by transport; of a body"
        " of PHP that never was on a failure transport a rejection in `x-death`",
        "endpoint": "the transport in `...SentToFailureTransportStamp`",
        "exception_type": "`...ErrorDetailsStamp`: `exceptionClass`",
        "exception_message": "`...ErrorDetailsStamp`: `exceptionMessage`",
        "stack_trace": "`...ErrorDetailsStamp`: `flattenException`",
        "time_of_failure": "`...RedeliveryStamp`: the last `redeliveredAt`",
        "attempts_reported": "`...RedeliveryStamp`: the largest `retryCount`, + 1",
        "failure_reason": "a body of PHP that cannot be cut: it would be lost if it failed again",
        "message_type": "header `type`, else the property",
        "message_id": "`message_id`",
    },
    removes=(SENT_TO_FAILURE, ERROR, REDELIVERY, DELAY),
    comes_back="keeps headers that it does not know; with a stamp that stayed it would drop the"
    " next failure, so they are cut out of a body of PHP, too",
)

_ENVELOPE = b"Symfony\\Component\\Messenger\\Envelope"
_SLASHED = re.compile(rb"\\(.)", re.DOTALL)
_BEGINNING = 200
_IN_BASE64 = b"Tzo"
"""`O:`, and a part of what follows."""
_STAMP = b"SentToFailureTransportStamp"


class SymfonyDialect(Library):
    """The stamps of Messenger, in headers or in a body of PHP."""

    name = "symfony"
    mark = SENT_TO_FAILURE
    reads_body = True
    declared = DECLARED

    def recognises(self, properties: Properties, body: bytes = b"") -> bool:
        """Say whether it was sent to a failure transport, or is an envelope of PHP."""
        return self.mark in properties.headers or _is_serialised(body)

    def read(
        self,
        properties: Properties,
        *,
        otherwise: str | None = None,
        body: bytes = b"",
        found_on: FoundOn = NOWHERE,  # noqa: ARG002 - it names no queue
    ) -> FailureDetails:
        """Read the stamps. The queue is that of the settings, else it is not known."""
        queue = otherwise or NOT_KNOWN
        if self.mark not in properties.headers:
            details = _read_serialised(body, is_cut=cut_stamps(body, OF_FAILURE) is not None)
            # Without a stamp it never was on a failure transport: its own queue dead-lettered it.
            rejected = rejecting_queue(properties) if details.endpoint is None else None
            queue = otherwise or rejected or NOT_KNOWN
            return replace(details, queue=queue, destination=queue)
        error = _last(properties.text(ERROR))
        redeliveries = _stamps(properties.text(REDELIVERY))
        counts = [number for each in redeliveries if (number := count(each.get("retryCount")))]
        last = redeliveries[-1] if redeliveries else {}
        return FailureDetails(
            queue=queue,
            destination=queue,
            endpoint=is_text(_last(properties.text(self.mark)).get("originalReceiverName")),
            message_type=properties.text(TYPE) or amqp_field(properties, "type"),
            exception_type=is_text(error.get("exceptionClass")),
            exception_message=is_text(error.get("exceptionMessage")),
            stack_trace=_trace(error.get("flattenException")),
            time_of_failure=parse_iso_time(is_text(last.get("redeliveredAt"))),
            attempts_reported=1 + max(counts, default=0) if redeliveries else None,
        )

    def unwrap(self, properties: Properties, body: bytes) -> Original | None:
        """Return what was sent, if the body is of PHP: without the stamps of its failure.

        None if it cannot be cut without a doubt.
        """
        cut = cut_stamps(body, OF_FAILURE) if _is_serialised(body) else None
        if cut is None:
            return None
        return Original(cut, properties.headers, properties.fields, keeps_properties=True)


def _stamps(text: str | None) -> list[Mapping[str, object]]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _last(text: str | None) -> Mapping[str, object]:
    return next(reversed(_stamps(text)), {})


def _trace(flattened: object) -> str | None:
    """Return the trace as PHP writes it."""
    match flattened:
        case {"traceAsString": str(text)} | {"trace_as_string": str(text)} if text:
            return text
        case {"trace": [*frames]}:
            return "\n".join(_frame(n, each) for n, each in enumerate(frames)) or None
        case _:
            return None


def _frame(number: int, frame: object) -> str:
    told = frame if isinstance(frame, dict) else {}
    place = f"{told.get('file') or '[internal function]'}({told.get('line') or 0})"
    call = "".join(str(told.get(name) or "") for name in ("class", "type", "function"))
    return f"#{number} {place}: {call}()"


def _decoded(body: bytes) -> bytes:
    """Return a body of PHP that is in base64, as Symfony sends what is no UTF-8; else the body."""
    if not body.startswith(_IN_BASE64):
        return body
    try:
        # Three bytes are four characters: what is cut off must leave whole ones.
        return b64decode(body[: LARGEST_BODY // 4 * 4], validate=True)
    except ValueError:
        return body


def _is_serialised(body: bytes) -> bool:
    body = _decoded(body)
    return body[:2] == b"O:" and _ENVELOPE in _SLASHED.sub(rb"\1", body[:_BEGINNING])


@dataclass(frozen=True, slots=True)
class _Serialised:
    """A text that PHP serialised. Names are found in it; nothing is ever made of it."""

    text: bytes

    def after(self, name: str) -> str | None:
        """Return the text after the last property of that name: each failure adds its stamps."""
        every = list(re.finditer(rb"\0" + name.encode() + rb'";s:(\d{1,9}):"', self.text))
        if not every:
            return None
        found = every[-1]
        value = self.text[found.end() : found.end() + int(found[1])]
        return value.decode(errors="replace") or None

    def class_after(self, name: str) -> str | None:
        found = re.search(rb"\0" + name.encode() + rb'";O:\d{1,9}:"([^"]{1,500})"', self.text)
        return found[1].decode(errors="replace") if found else None

    def numbers_after(self, name: str) -> list[int]:
        found = re.findall(rb"\0" + name.encode() + rb'";i:(\d{1,9});', self.text)
        return [int(each) for each in found]


def _read_serialised(body: bytes, *, is_cut: bool) -> FailureDetails:
    found = _Serialised(_SLASHED.sub(_plain, _decoded(body)[:LARGEST_BODY]))
    counts = found.numbers_after("retryCount")
    return FailureDetails(
        queue=NOT_KNOWN,
        destination=NOT_KNOWN,
        endpoint=found.after("originalReceiverName"),
        message_type=found.class_after("message"),
        exception_type=found.after("exceptionClass"),
        exception_message=found.after("exceptionMessage"),
        failure_reason=LOST_NEXT if _STAMP in found.text and not is_cut else None,
        attempts_reported=1 + max(counts) if counts else None,
    )


def _plain(slashed: re.Match[bytes]) -> bytes:
    return b"\0" if slashed[1] == b"0" else slashed[1]
