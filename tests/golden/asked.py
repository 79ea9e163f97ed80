"""Addresses with names in them: `/api/errors/{failed_message_id:order-1}` is what is asked for.

Before the colon stands the parameter as the route calls it, after it what the story calls the value,
or the value itself.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
from starlette.types import ASGIApp

_VALUE = re.compile(r"\{(\w+):([^}]*)\}")
_NAME = re.compile(r"\{:([^}]+)\}")
_EVENT = re.compile(rb"data:[^\n]*\n\n")
_LONG_ENOUGH = 30.0
_LEFT_OUT = frozenset({"content-length", "set-cookie"})


def route_of(address: str) -> str:
    """Return the route of an address: without query, and without values."""
    return _VALUE.sub(r"{\1}", address.partition("?")[0])


def filled(address: str, known: Mapping[str, str]) -> str:
    """Return the address that is asked for."""
    path = _VALUE.sub(lambda found: quote(known.get(found[2], found[2]), safe=""), address)
    return _NAME.sub(lambda found: known[found[1]], path)


def filled_in(content: object, known: Mapping[str, str]) -> object:
    """Return a body with the values for the names in it, which are written `{:order-1}`."""
    text = json.dumps(content)
    return json.loads(_NAME.sub(lambda found: known[found[1]], text))


def shown(answer: httpx.Response) -> str:
    """Return an answer as text: status, headers, body."""
    headers = sorted(
        f"{name}: {value}" for name, value in answer.headers.multi_items() if name not in _LEFT_OUT
    )
    cookies = [f"set-cookie: {each}" for each in answer.headers.get_list("set-cookie")]
    head = "\n".join([str(answer.status_code), *headers, *cookies])
    return f"{head}\n\n{shown_body(answer)}".rstrip()


def begun(app: ASGIApp, path: str, headers: Mapping[str, str]) -> str:
    """Return the beginning of an answer that does not end: up to its first event."""
    return asyncio.run(_begin(app, path, headers))


async def _begin(app: ASGIApp, path: str, headers: Mapping[str, str]) -> str:
    place, _, query = path.partition("?")
    named = {"host": "localhost", **headers}
    scope = {
        "type": "http",
        "method": "GET",
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    over = asyncio.Event()
    sent = bytearray()
    asked = [{"type": "http.request", "body": b"", "more_body": False}]
    head: list[str] = []

    async def receive() -> dict[str, object]:
        if asked:
            return asked.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            pairs = sorted(
                f"{name.decode()}: {value.decode()}" for name, value in message["headers"]
            )
            head.extend([str(message["status"]), *pairs])
        sent.extend(message.get("body", b""))
        if _EVENT.search(bytes(sent)):
            over.set()

    async with asyncio.timeout(_LONG_ENOUGH):
        await app(scope, receive, send)
    found = _EVENT.search(bytes(sent))
    body = bytes(sent[: found.end()]) if found else bytes(sent)
    return "\n".join([*head, "", in_lines(body)]).rstrip()


def shown_body(answer: httpx.Response) -> str:
    """Return the body: JSON in lines if nothing is lost by that, what is no text in escapes."""
    content = answer.content
    if "json" in answer.headers.get("content-type", ""):
        with suppress(ValueError):
            found = json.loads(content)
            if json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() == content:
                return in_lines(json.dumps(found, ensure_ascii=False, indent=1).encode())
    return in_lines(content)


def in_lines(content: bytes) -> str:
    """Return bytes as text; bytes that are no UTF-8, and control characters, are written out."""
    text = content.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() or each == "\n" else _out(each) for each in text)


def _out(character: str) -> str:
    return character.encode("unicode_escape").decode()
