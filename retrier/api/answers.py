"""Answers: JSON with its ETag, 304 when the client has it already, and the headers all have."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import overload

from fastapi import Request, Response

SERVICECONTROL_VERSION = "6.19.2"
"""The ServiceControl whose API this is; its clients switch their features by it."""

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

    The ETag is the hash of what is sent: nothing that changed can look unchanged.
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


def accepted(content: object, location: str | None = None) -> Response:
    """Answer 202: what was asked for is durable, and `location` tells how far it is."""
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
