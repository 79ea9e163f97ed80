"""Bodies for people: JSON and XML set in lines, text as it came, anything else as bytes.

Nothing is changed but white space between tokens: a number keeps its digits, a name that comes
twice is shown twice. What cannot be read as JSON or XML is shown as text.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain
from xml.parsers import expat

from retrier.domain.access import HIDDEN
from retrier.domain.values import dataclass
from retrier.domain.wire import PACKED, unpack

SHOWN = 64 * 1024
"""Bytes of a body that a page shows at most."""
SHOWN_AS_BYTES = 8 * 1024
"""Bytes that a page shows in hexadecimal digits at once: each takes five characters."""
_MORE_BYTES = 28 * 1024
"""Bytes that are shown then, each time that a person asks for more: a page stays below 150 kB."""
_WIDEST = 4 * SHOWN
"""Characters of a body that was set in lines, at most: deep nesting makes long lines."""
_INDENT = "  "
_PER_LINE = 16
_MOST_CONTROLS = 20
"""One control character in so many others is still text."""

_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_XML = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>|[^<]+", re.DOTALL
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


FORMS = ("text", "hex")
"""How a body is shown if a person asks for it so."""


class BodyKind(StrEnum):
    """How a body is shown."""

    JSON = "JSON"
    XML = "XML"
    TEXT = "text"
    BYTES = "bytes"


EXTENSIONS = {
    BodyKind.JSON: "json",
    BodyKind.XML: "xml",
    BodyKind.TEXT: "txt",
    BodyKind.BYTES: "bin",
}
"""How a file ends that is made of a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBody:
    """A body, or its beginning. `size` and `shown` are numbers of bytes, of all and of this text.

    `note` says how it was packed, or why it could not be unpacked although it says that it is packed.
    Of one that was unpacked the numbers are those of what came out.
    """

    kind: BodyKind
    text: str
    size: int
    shown: int
    is_set: bool = False
    is_unpacked: bool = False
    note: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether there is more of it than is shown."""
        return self.shown < self.size


LOOKED_AT = 256
"""Bytes of a body that are read for its excerpt."""
_EXCERPT = 60


def excerpt(beginning: bytes) -> str:
    """Return the beginning of a body in one line of 60 characters; empty if it is no text."""
    text = _read_text(beginning, whole=False) or ""
    line = " ".join(text.removeprefix("\ufeff").split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT].rstrip()}…"


def show_body(beginning: bytes, size: int, form: str = "", packed: str = "") -> ShownBody:
    """Return a body of that size as people read it; `form` "text" or "hex" shows it as it came.

    `packed` is the encoding that its sender names: gzip and deflate are unpacked, except for "hex".
    """
    if packed not in PACKED or form == "hex" or not beginning:
        return _show_plain(beginning, size, form)
    unpacked = unpack(beginning, size, packed)
    if not unpacked.is_unpacked:
        return replace(_as_bytes(beginning, size), note=unpacked.note)
    content = unpacked.content
    much = len(content) if unpacked.is_all else len(content) + 1
    shown = _show_plain(content[:SHOWN], much, form)
    return replace(shown, is_unpacked=True, note=unpacked.note)


def hide_body(size: int) -> ShownBody:
    """Return what stands in place of a body for who may not read it."""
    return ShownBody(kind=BodyKind.TEXT, text=HIDDEN, size=size, shown=size)


def _show_plain(beginning: bytes, size: int, form: str) -> ShownBody:
    text = None if form == "hex" else _read_text(beginning, whole=len(beginning) == size)
    if text is None:
        return _as_bytes(beginning, size)
    plain = ShownBody(kind=BodyKind.TEXT, text=text, size=size, shown=len(beginning))
    if form == "text":
        return plain
    is_cut = len(beginning) < size
    for kind, set_in_lines in _READERS.items():
        formatted = set_in_lines(text.removeprefix("\ufeff"), is_cut=is_cut)
        if formatted is not None:
            return replace(plain, kind=kind, text=formatted, is_set=True)
    return plain


def bytes_after(last: int, size: int) -> int:
    """Return how many bytes are shown next, of a body of which those up to `last` are shown."""
    return max(0, min(_MORE_BYTES, min(size, SHOWN) - last))


def show_bytes(beginning: bytes, first: str) -> tuple[int, int, str]:
    """Return a part of a body in hexadecimal digits, and from where up to where it is.

    It begins at the byte that an address names, at the earliest behind what its page shows.
    """
    named = int(first[:6]) if first.isascii() and first.isdecimal() else 0
    start = max(SHOWN_AS_BYTES, named) // _PER_LINE * _PER_LINE
    part = beginning[start : min(start + _MORE_BYTES, SHOWN)]
    return start, start + len(part), _lines(part, start)


def _read_text(content: bytes, *, whole: bool) -> str | None:
    """Return UTF-8 as text; None if it is none, or mostly none."""
    # Of a body that is cut, the last character may be, too.
    for cut in range(1 if whole else 4):
        try:
            text = content[: len(content) - cut].decode()
        except UnicodeDecodeError:
            continue
        controls = sum(1 for _ in _CONTROLS.finditer(text))
        return text if controls * _MOST_CONTROLS <= len(text) else None
    return None


def _as_bytes(content: bytes, size: int) -> ShownBody:
    shown = content[:SHOWN_AS_BYTES]
    return ShownBody(kind=BodyKind.BYTES, text=_lines(shown), size=size, shown=len(shown))


def _lines(content: bytes, first: int = 0) -> str:
    """Return bytes in lines; `first` is where in the body they begin."""
    return "\n".join(
        _line(first + start, content[start : start + _PER_LINE])
        for start in range(0, len(content), _PER_LINE)
    )


def _line(start: int, content: bytes) -> str:
    digits = content.hex(" ").ljust(3 * _PER_LINE - 1)
    letters = "".join(chr(each) if 32 <= each < 127 else "." for each in content)  # noqa: PLR2004 - ASCII that is seen
    return f"{start:08x}  {digits}  {letters}"


def _set_json(text: str, *, is_cut: bool) -> str | None:
    """Set JSON in lines. Of one that is cut nobody knows whether the rest would be right."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    if is_cut:
        tokens, rest = _tokens(_JSON, text)
        return _joined(chain(_json_parts(tokens), [rest]))
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _joined(_json_parts(_JSON.findall(text)))


def _tokens(form: re.Pattern[str], text: str) -> tuple[Sequence[str], str]:
    """Return the tokens that follow each other from the beginning, and the text behind them."""
    found, end = [], 0
    for token in form.finditer(text):
        if text[end : token.start()].strip():
            break
        found.append(token[0])
        end = token.end()
    return found, text[end:]


def _json_parts(tokens: Iterable[str]) -> Iterator[str]:
    depth, before = 0, ""
    for part in tokens:
        closes, opened = part in "}]", before in ("{", "[")
        depth -= closes
        if before and (closes != opened if closes or opened else before == ","):
            yield "\n" + _INDENT * depth
        yield ": " if part == ":" else part
        depth += part in "{["
        before = part


def _set_xml(text: str, *, is_cut: bool) -> str | None:
    """Set well-formed XML in lines. What declares a type is not parsed: it may define entities."""
    if not text.lstrip().startswith("<") or "<!DOCTYPE" in text:
        return None
    parser = expat.ParserCreate()
    try:
        parser.Parse(text, not is_cut)
    except (expat.ExpatError, ValueError):
        return None
    tokens, rest = _tokens(_XML, text.strip())
    return _joined(chain(_xml_parts(tokens), [rest]))


def _xml_parts(tokens: Iterable[str]) -> Iterator[str]:
    depth, before = 0, ""
    for token in tokens:
        if token.isspace():
            continue
        closes, is_text = token.startswith("</"), not token.startswith("<")
        depth -= closes
        # The text of an element stays on its line.
        beside = is_text or (before and not before.startswith("<")) or (closes and _opens(before))
        if before and not beside:
            yield "\n" + _INDENT * depth
        yield token
        depth += _opens(token)
        before = token


def _opens(token: str) -> bool:
    return token.startswith("<") and token[1:2] not in "/!?" and not token.endswith("/>")


def _joined(parts: Iterator[str]) -> str | None:
    """Return the parts as one text; None if it becomes too long."""
    found: list[str] = []
    length = 0
    for part in parts:
        found.append(part)
        length += len(part)
        if length > _WIDEST:
            return None
    return "".join(found)


_READERS: dict[BodyKind, Callable[..., str | None]] = {
    BodyKind.JSON: _set_json,
    BodyKind.XML: _set_xml,
}
