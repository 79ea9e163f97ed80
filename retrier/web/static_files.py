"""Stylesheet and scripts: read once, compressed once, and kept by browsers until they change."""

import gzip
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request, Response

router = APIRouter()

_DIGITS = 12
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """One file; `version` is a part of the hash of its content."""

    content: bytes
    compressed: bytes
    media_type: str
    version: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return the files of the page by name."""
    folder = files("retrier.web") / "static"
    return {each.name: _read(each.name, each.read_bytes()) for each in folder.iterdir()}


def static_url(name: str) -> str:
    """Return the address of a file; another content has another address."""
    return f"/static/{name}?v={static_files()[name].version}"


@router.get("/static/{name}")
async def get_static(request: Request, name: str) -> Response:
    """Return a file."""
    found = static_files().get(name)
    if found is None:
        raise HTTPException(404, "There is no such file.")
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {**_HEADERS, "Content-Encoding": "gzip"}
        return Response(found.compressed, headers=headers, media_type=found.media_type)
    return Response(found.content, headers=_HEADERS, media_type=found.media_type)


def _read(name: str, content: bytes) -> StaticFile:
    media_type = mimetypes.guess_type(name)[0] or "text/plain"
    return StaticFile(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=media_type,
        version=sha256(content).hexdigest()[:_DIGITS],
    )
