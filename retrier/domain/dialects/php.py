"""Bodies that PHP serialised from Messenger's envelope: what failing added is cut out of them.

Nothing is ever made of such a text. It is walked strictly, and only to find where each value ends;
whatever this does not know, also references, which count the values before them, is no body that
can be cut. So what is left is, byte for byte, what stood there.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Collection

LARGEST = 64 * 1024 * 1024
"""Bytes. A larger body is not cut."""
LARGEST_DEPTH = 512

_ENVELOPE = rb"Symfony\Component\Messenger\Envelope"
_STAMPS = b'O:36:"%b":2:{s:44:"\0%b\0stamps";a:' % (_ENVELOPE, _ENVELOPE)
_MESSAGE = b's:45:"\0%b\0message";O:' % _ENVELOPE
_COUNT = re.compile(rb"(0|[1-9]\d{0,8}):\{")
_SCALAR = re.compile(
    rb"N;|b:[01];|i:(?:0|-?[1-9]\d{0,18});"
    rb"|d:(?:-?\d{1,400}(?:\.\d{1,400})?(?:E[+-]?\d{1,4})?|-?INF|NAN);"
)
_TEXT = re.compile(rb'([sE]):(0|[1-9]\d{0,8}):"')
_TABLE = re.compile(rb"a:(0|[1-9]\d{0,8}):\{")
_OBJECT = re.compile(rb'O:([1-9]\d{0,8}):"')
_MEMBERS = re.compile(rb'":(0|[1-9]\d{0,8}):\{')
_SPECIAL = re.compile(rb"[\x00'\"\\]")
_SLASHED = re.compile(rb"\\(.?)", re.DOTALL)


class _NotKnownError(Exception):
    """The text holds what this does not know."""


def cut_stamps(body: bytes, stamps: Collection[str]) -> bytes | None:
    """Return the body without the stamps of these classes; None if it cannot be cut exactly.

    It has the form in which Messenger sends: with slashes, and in base64 if it is no UTF-8.
    """
    text = serialised(body)
    if text is None:
        return None
    try:
        cut = _cut(text, frozenset(each.encode() for each in stamps))
    except _NotKnownError:
        return None
    return body if cut == text else as_sent(cut)


def serialised(body: bytes) -> bytes | None:
    """Return what PHP serialised; None unless Messenger sends exactly this body for it."""
    if len(body) > LARGEST:
        return None
    slashed = body
    if not body.endswith(b"}"):
        try:
            slashed = b64decode(body, validate=True)
        except ValueError:
            return None
    text = _SLASHED.sub(_plain, slashed)
    return text if as_sent(text) == body else None


def as_sent(text: bytes) -> bytes:
    """Return a serialised text as Messenger sends it."""
    slashed = _SPECIAL.sub(_with_slash, text)
    try:
        slashed.decode()
    except UnicodeDecodeError:
        return b64encode(slashed)
    return slashed


def _plain(found: re.Match[bytes]) -> bytes:
    return b"\0" if found[1] == b"0" else found[1]


def _with_slash(found: re.Match[bytes]) -> bytes:
    return b"\\0" if found[0] == b"\0" else b"\\" + found[0]


def _cut(text: bytes, stamps: frozenset[bytes]) -> bytes:
    """Walk the whole envelope. Raises _NotKnownError."""
    if not text.startswith(_STAMPS):
        raise _NotKnownError
    place = len(_STAMPS)
    number, place = _expect(_COUNT, text, place)
    kept = []
    for _ in range(number):
        start = place
        name, place = _read_name(text, place)
        place = _end_of(text, place)
        if name not in stamps:
            kept.append(text[start:place])
    rest = text[place:]
    if not rest.startswith(b"}" + _MESSAGE):
        raise _NotKnownError
    end = _end_of(text, place + 1 + len(_MESSAGE) - len(b"O:"))
    if text[end:] != b"}":
        raise _NotKnownError
    return b"%b%d:{%b%b" % (_STAMPS, len(kept), b"".join(kept), rest)


def _read_name(text: bytes, place: int) -> tuple[bytes, int]:
    end = _end_of(text, place)
    found = _TEXT.match(text, place)
    if found is None or found[1] != b"s":
        raise _NotKnownError
    return text[found.end() : end - len(b'";')], end


def _end_of(text: bytes, place: int) -> int:
    """Return where the value that begins there ends. Raises _NotKnownError."""
    lacking = [1]
    """Of each table that is open: how many values it still lacks, its keys among them."""
    while lacking:
        if lacking[-1] == 0:
            lacking.pop()
            if not lacking:
                break
            if text[place : place + 1] != b"}":
                raise _NotKnownError
            place += 1
            continue
        is_key = len(lacking) > 1 and lacking[-1] % 2 == 0
        lacking[-1] -= 1
        if found := _SCALAR.match(text, place):
            if is_key and not found[0].startswith(b"i"):
                raise _NotKnownError
            place = found.end()
        elif found := _TEXT.match(text, place):
            if is_key and found[1] != b"s":
                raise _NotKnownError
            place = _past(text, found.end() + int(found[2]), b'";')
        elif is_key or len(lacking) > LARGEST_DEPTH:
            raise _NotKnownError
        elif found := _TABLE.match(text, place):
            lacking.append(2 * int(found[1]))
            place = found.end()
        elif found := _OBJECT.match(text, place):
            members, place = _expect(_MEMBERS, text, found.end() + int(found[1]))
            lacking.append(2 * members)
        else:
            raise _NotKnownError
    return place


def _past(text: bytes, place: int, expected: bytes) -> int:
    if text[place : place + len(expected)] != expected:
        raise _NotKnownError
    return place + len(expected)


def _expect(pattern: re.Pattern[bytes], text: bytes, place: int) -> tuple[int, int]:
    found = pattern.match(text, place)
    if found is None:
        raise _NotKnownError
    return int(found[1]), found.end()
