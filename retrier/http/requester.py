"""Who asks: the name that a proxy, a client or a person gives, and where it comes from."""

from fastapi import Request

from retrier.domain.text import clean

LONGEST_NAME = 200
"""Characters, of up to four bytes each."""
_MOST_BYTES = 4 * LONGEST_NAME
LONGEST_KEY = 255
"""Characters of an idempotency key."""
NOBODY = "anonymous"


def one_line(text: str, most: int) -> str:
    """Return text in one printable line of at most so many bytes."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return clean(line.strip(), most).strip()


def name_of(request: Request, otherwise: str = "") -> str:
    """Return the name that a request gives, or the other one; NOBODY if there is neither."""
    # Header bytes come as Latin-1, but most are UTF-8.
    told = request.headers.get("x-retrier-user", "").encode("latin-1", "replace")
    name = one_line(told.decode("utf-8", "replace") or otherwise, _MOST_BYTES)
    return name[:LONGEST_NAME].strip() or NOBODY


def asked_by(request: Request, otherwise: str = "") -> str:
    """Return who asks and from where, as it is shown with what is asked for."""
    address = request.client.host if request.client else "unknown address"
    return f"{name_of(request, otherwise)} ({address})"
