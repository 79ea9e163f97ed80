"""Requests as they come off the wire: what an HTTP client of good manners would never send."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI

Headers = Sequence[tuple[bytes, bytes]]
LOCALHOST = (b"host", b"localhost")


@dataclass(frozen=True, slots=True)
class BareAnswer:
    """What came back."""

    status: int
    body: bytes


def ask_bare(
    api: FastAPI, method: str, target: str, headers: Headers = (LOCALHOST,), body: bytes = b""
) -> BareAnswer:
    """Ask as the server would after it has parsed the request, and nothing beyond that."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 33333),
    }
    return asyncio.run(_ask(api, scope, body))


async def _ask(api: FastAPI, scope: dict[str, Any], body: bytes) -> BareAnswer:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await api(scope, receive, send)
    content = b"".join(message.get("body", b"") for message in sent)
    return BareAnswer(sent[0]["status"], content)
