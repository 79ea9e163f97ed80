"""Stamps spliced into raw properties, and taken out again, without decoding anything else."""

from uuid import uuid4

from tests.support.raw_messages import raw_properties

CONTENT_TYPE, CONTENT_ENCODING, HEADERS = 0x80, 0x40, 0x20
FLAGS = 2
LENGTH = 4
STAMPS = raw_properties(
    {
        f"Raw.Stamp{number}": value
        for number, value in enumerate([*(str(uuid4()) for _ in range(5)), "a.queue.name", "2048"])
    }
)[FLAGS + LENGTH :]
"""As many bytes as the stamps of a staged copy have."""


def splice(raw: bytes) -> bytes:
    """Return properties with the stamps at the end of their headers; they must have headers."""
    start, end = _find_headers(raw)
    size = (end - start + len(STAMPS)).to_bytes(LENGTH)
    return b"".join([raw[: start - LENGTH], size, raw[start:end], STAMPS, raw[end:]])


def unsplice(raw: bytes) -> bytes:
    """Return properties without the stamps, which lie in one piece.

    They lie at the end of the headers, or wherever RabbitMQ 4 sorts them to by their names.
    """
    start, end = _find_headers(raw)
    at = raw.rindex(STAMPS, start, end)
    size = (end - start - len(STAMPS)).to_bytes(LENGTH)
    return b"".join([raw[: start - LENGTH], size, raw[start:at], raw[at + len(STAMPS) :]])


def _find_headers(raw: bytes) -> tuple[int, int]:
    at = FLAGS
    for flag in (CONTENT_TYPE, CONTENT_ENCODING):
        if raw[0] & flag:
            at += 1 + raw[at]
    start = at + LENGTH
    return start, start + int.from_bytes(raw[at:start])
