"""Answers: JSON with its ETag, 304 for unchanged content, headers of all answers, a short cache."""

import json
import threading
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import TypeVar, cast, overload

from fastapi import Request, Response

from retrier.clock import Clock, SystemClock
from retrier.errors import AnswerTooSlow

SERVICECONTROL_VERSION = "6.19.2"
"""The ServiceControl version whose API this is; its clients choose their features by it."""

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Particular-Version": SERVICECONTROL_VERSION,
        "Cache-Control": "private, max-age=0",
        "Vary": "Accept",
        "X-Content-Type-Options": "nosniff",
    }
)
TOTAL_COUNT = "Total-Count"


def answer(request: Request, content: object, headers: Mapping[str, str] | None = None) -> Response:
    """Answer 200 with JSON, or 304 if the client has exactly this.

    The ETag is the hash of the content, so every change of the content changes it.
    """
    own = headers or {}
    body = encode(content)
    etag = sha256(body + own.get(TOTAL_COUNT, "").encode()).hexdigest()[:32]
    return revalidated(request, body, etag, {"Content-Type": "application/json", **own})


def revalidated(request: Request, body: bytes, etag: str, headers: Mapping[str, str]) -> Response:
    """Answer 200 with the body, or 304 without it if the client's If-None-Match names the ETag."""
    quoted = f'"{etag}"'
    own = {**HEADERS, "ETag": quoted, **headers}
    known = request.headers.get("if-none-match", "")
    if quoted in known.replace("W/", "").replace(" ", "").split(",") or known.strip() == "*":
        own.pop("Content-Type")
        return Response(status_code=304, headers=own)
    if request.method == "HEAD":
        return Response(headers={**own, "Content-Length": str(len(body))})
    return Response(body, headers=own)


def told(content: object) -> Response:
    """Answer 200 with JSON that no client keeps: what a POST found out."""
    own = {**HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}
    return Response(encode(content), headers=own)


def accepted(content: object, location: str | None = None) -> Response:
    """Answer 202: the request is stored durably, and `location` shows its progress."""
    own = {**HEADERS, "Content-Type": "application/json"}
    own |= {"Location": location} if location else {}
    return Response(encode(content), status_code=202, headers=own)


def encode(content: object) -> bytes:
    """Encode as JSON in UTF-8."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


Json = dict[str, object]


@overload
def time(moment: datetime) -> str: ...
@overload
def time(moment: datetime | None) -> str | None: ...
def time(moment: datetime | None) -> str | None:
    """Show a moment in ISO 8601, in UTC, with a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def camel(value: StrEnum) -> str:
    """Show a stored value as ServiceControl shows its enums: `retryIssued`."""
    first, *rest = value.split("_")
    return first + "".join(word.capitalize() for word in rest)


def present(members: Mapping[str, object]) -> Json:
    """Leave out members that are None."""
    return {name: value for name, value in members.items() if value is not None}


T = TypeVar("T")

COSTLY = 0.2
"""Seconds; an answer that takes less is not cached."""

TIMES_ITS_COST = 10
LONGEST = 60.0
"""Seconds an answer is cached at most."""

FINDING_TIMEOUT = 5.0
"""Seconds to wait while another thread finds an answer."""


class AnswerCache:
    """Caches a costly answer for ten times as long as it took to find.

    So counting a million messages uses at most a tenth of one thread, however many clients poll.
    With few messages nothing is cached.
    """

    def __init__(self, clock: Clock | None = None, timeout: float = FINDING_TIMEOUT) -> None:
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._lock = threading.Lock()
        self._finding: dict[Hashable, threading.Lock] = {}
        self._answers: dict[Hashable, tuple[object, float]] = {}

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the cached answer of the key, or find it: one thread finds, the others wait.

        Raises AnswerTooSlow after `timeout`: if queries hang, threads must not hang in turn.
        """
        with self._lock:
            finding = self._finding.setdefault(key, threading.Lock())
        if not finding.acquire(timeout=self._timeout):
            raise AnswerTooSlow(f"others have waited for this answer for {self._timeout:g} s")
        try:
            answer, until = self._answers.get(key, (None, 0.0))
            if self._clock.monotonic() < until:
                return cast("T", answer)
            return self._find(key, find)
        finally:
            finding.release()

    def _find(self, key: Hashable, find: Callable[[], T]) -> T:
        started = self._clock.monotonic()
        answer = find()
        ended = self._clock.monotonic()
        cost = ended - started
        if cost >= COSTLY:
            self._answers[key] = (answer, ended + min(cost * TIMES_ITS_COST, LONGEST))
        return answer
