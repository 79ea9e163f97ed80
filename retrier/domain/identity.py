"""Unique message ids: which deliveries are failures of the same message; and numbers as ranges."""

import re
from collections.abc import Iterable, Sequence
from hashlib import md5, sha256

FINGERPRINT_DIGITS = 32
"""Hexadecimal digits of a fingerprint: 128 bits, so two messages never share one by chance."""

GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def computed_id(message_id: str, endpoint: str) -> str:
    """Return the unique message id computed from message id and endpoint.

    A NUL separates them, so that "1" at "1shop" and "11" at "shop" get different ids.
    """
    return md5_guid(f"{message_id}\0{endpoint}")


def with_body(unique_id: str, body_hash: str) -> str:
    """Return the id of a message whose publisher reused a message id for another body."""
    return md5_guid(f"{unique_id}\0{body_hash}")


def with_all(unique_id: str, *parts: str) -> str:
    """Return the id of a message that differs in something else from all that have its other ids."""
    return md5_guid("\0".join((unique_id, *parts)))


def md5_guid(text: str) -> str:
    """Return a .NET Guid of the text's MD5 (ServiceControl: DeterministicGuid)."""
    mixed = md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    # A Guid's first three numbers are little-endian.
    digest = (mixed[3::-1] + mixed[5:3:-1] + mixed[7:5:-1] + mixed[8:]).hex()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def is_guid(text: str) -> bool:
    """Say whether text is a hyphenated GUID, in either case."""
    return GUID.fullmatch(text) is not None


def canonical(guid: str) -> str:
    """Return a GUID as ids are stored and compared: in lower case."""
    return guid.lower()


def body_hash(body: bytes) -> str:
    """Return the SHA-256 under which a body is stored, as 64 hexadecimal digits."""
    return sha256(body).hexdigest()


def fingerprint(raw: bytes, body: bytes) -> str:
    """Return a hash of a whole message, given its properties in their canonical form.

    Equal for every redelivery of one message.
    """
    digest = sha256(len(raw).to_bytes(8))
    digest.update(raw)
    digest.update(body)
    return digest.hexdigest()[:FINGERPRINT_DIGITS]


def to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Return ascending numbers as pairs of first and last, both included."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def is_within(number: int, ranges: Sequence[Sequence[int]]) -> bool:
    """Say whether one of the ranges has the number."""
    return any(first <= number <= last for first, last in ranges)
