"""What the sender of a message said in its properties, without what changes on its way.

Two deliveries are of one message only if these facts agree: middleware copies headers to new
messages, and publishers use one message id for several. What is volatile says nothing: tracing,
what a broker writes, counters of deliveries and retries, times of sending, failure headers and
what else a library changes (each dialect declares it), and whatever a retry adds or leaves out.
"""

import json
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256

from retrier.domain import dialects, headers
from retrier.domain.copies import without_envelope
from retrier.domain.failed_message import SenderFacts
from retrier.domain.patches import PatchRefused, WrongPatch, patch_message, read_patch
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.values import dataclass
from retrier.domain.wire import Properties, PropertyCodec, UnreadableProperties

_FIELDS = frozenset({"app_id", "cluster_id", "correlation_id", "reply_to", "type"})
"""Not message id and times, which middleware renews, and not what a retry itself changes.

Nor content type, encoding and priority: client libraries put defaults in where a consumer that
parks a message does not copy them, and beside an equal body they say nothing.
"""

_FIELD = ":"
"""What the names of fields begin with, among facts."""

_OF_RETRIES = frozenset(
    {
        headers.UNIQUE_MESSAGE_ID,
        headers.RETRY_SUCCESSFUL,
        headers.ACKNOWLEDGEMENT_QUEUE,
        headers.RETRY_ID,
        headers.COMPLETED_STEPS,
        headers.LOGGED_ID,
        headers.NOTICE_ID,
        headers.ENDPOINT,  # compared as a place, together with the queue
        headers.STREAM,  # a head that loses its headers stays in its stream
        *headers.STAGING_ONLY,
        *headers.FAN_OUT,
    }
)

_OF_TASKS = frozenset(
    {"retries", "eta", "expires", "origin", "timelimit", "parent_id", "stamps", "stamped_headers"}
    | {"delivery_info", "replaced_task_nesting", "ignore_result", "argsrepr", "kwargsrepr"}
)
"""What Celery writes anew when it publishes a task again; what it was asked to do is the body."""

_VOLATILE = re.compile(
    r"""
      traceparent|tracestate|baggage|b3|x-b3-.*|uber-trace-id|uberctx-.*|sentry-trace|.*trace-?id
    | x-datadog-.*|dd-.*|newrelic|elastic-apm-.*|x-amzn-trace-id|x-cloud-trace-context|span-?id
    | diagnostic.*|x-exception-.*|x-original-message-id|x-cache-id
    | x-message-stamp-.*(errordetails|redelivery|delay|senttofailuretransport)stamp
    | (x-)?(death|first-death-.*|last-death-.*|delivery-count|acquired-count|delay|stream-offset)
    | x-caf-worker-.*|x-delivered.*
    | (.+[-_.])?(retry|retries|attempts?|tries|redeliver(y|ies)|delivery|deliveries)
      ([-_.]?(count|counter|number|no))?
    | (x-)?(sent|published|enqueued|requeued?|queued)[-_.]?(at|time|timestamp|on)
    | (x-)?timestamp(_in_ms|-?ms)?|message-?id|x-message-id
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Header names that say nothing about which message it is; the whole name has to match."""


@dataclass(frozen=True, slots=True)
class FactReader:
    """Reads facts with the codec of a broker.

    `volatile` are more names of headers to leave out, as patterns with `*`, in lower case.
    """

    codec: PropertyCodec
    volatile: tuple[str, ...] = ()

    def facts(self, raw: bytes) -> SenderFacts | None:
        """Return the facts in raw properties; None if they cannot be read."""
        try:
            return facts_of(self.codec.read(raw), self.volatile)
        except UnreadableProperties:
            return None

    def task(self, raw: bytes, body: bytes) -> str | None:
        """Return `task_of` a message; None if its properties cannot be read."""
        try:
            return task_of(self.codec.read(raw), body)
        except UnreadableProperties:
            return None

    def inside(self, raw: bytes, body: bytes, dialect: str) -> tuple[bytes, bytes] | None:
        """Return properties and body of what stands in an error envelope, else the same."""
        found = self._inside(raw, body, dialect)
        return None if found is None else (found.raw, found.body)

    def patched(
        self, raw: bytes, body: bytes, dialect: str, patch: str
    ) -> tuple[bytes, bytes] | None:
        """Return properties and body as a patch makes them; None if it cannot be applied."""
        found = self._inside(raw, body, dialect)
        if found is None:
            return None
        try:
            made = patch_message(self.codec, found, read_patch(patch))
        except WrongPatch:
            return None
        return None if isinstance(made, PatchRefused) else (made.raw, made.body)

    def _inside(self, raw: bytes, body: bytes, dialect: str) -> StoredOriginal | None:
        found = StoredOriginal(raw, body, dialect, "", completed_steps=None)
        try:
            return without_envelope(self.codec, found)
        except UnreadableProperties:
            return None


def facts_of(properties: Properties, volatile: tuple[str, ...] = ()) -> SenderFacts:
    """Return the facts of a message; a field of AMQP is named with a leading colon."""
    is_task = "task" in properties.headers and "id" in properties.headers
    fields = {
        _FIELD + name: _text(value)
        for name, value in properties.fields.items()
        if name in _FIELDS and not _is_renewed(name, value)
    }
    said = {
        name: _text(value)
        for name, value in properties.headers.items()
        if not _is_volatile(name, volatile) and not (is_task and name in _OF_TASKS)
    }
    return fields | said


def is_field(name: str) -> bool:
    """Say whether a fact is a field of AMQP, and no header."""
    return name.startswith(_FIELD)


def digest(facts: SenderFacts) -> str:
    """Return a hash of facts, in any order."""
    return sha256(json.dumps(sorted(facts.items())).encode()).hexdigest()


def task_of(properties: Properties, body: bytes) -> str | None:
    """Return what a message asks for if its library changes the body when it fails, else None.

    Celery writes the parts about callbacks anew, Dramatiq its counters and the traceback: a hash
    of the name and the arguments stays the same. Of an error envelope it is what stands inside.
    """
    if "task" in properties.headers and "id" in properties.headers:
        return _celery_task(properties, body)
    inside = dialects.open_envelope(properties, body)
    if inside is not None:
        said = sorted(facts_of(inside.properties).items())
        return _hash([inside.body.decode(errors="backslashreplace"), said])
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, dict) or not {"actor_name", "message_id", "args"} <= told.keys():
        return None
    return _hash([told.get(name) for name in ("actor_name", "message_id", "args", "kwargs")])


def _celery_task(properties: Properties, body: bytes) -> str:
    said = [properties.text("task"), properties.text("id")]
    try:
        arguments = json.loads(body)[:2]
    except (ValueError, RecursionError, TypeError, KeyError):
        arguments = [properties.text("argsrepr"), properties.text("kwargsrepr")]
    return _hash([said, arguments])


def _hash(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _is_renewed(name: str, value: object) -> bool:
    """Say whether the broker wrote the value: it rewrites the address of a direct reply."""
    return name == "reply_to" and str(value).startswith("amq.")


@lru_cache(maxsize=4096)
def _is_volatile(name: str, more: tuple[str, ...]) -> bool:
    if name in _OF_RETRIES or _VOLATILE.fullmatch(name):
        return True
    if dialects.varies(name):
        return True
    return any(fnmatchcase(name.casefold(), pattern) for pattern in more)


def _text(value: object) -> str:
    """Return a value as text: libraries write a number back as text, and bytes as text."""
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode(errors="backslashreplace")
        case dict():
            return json.dumps({str(key): _text(each) for key, each in sorted(value.items())})
        case list():
            return json.dumps([_text(each) for each in value])
        case _:
            return str(value)
