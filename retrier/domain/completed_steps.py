"""Completed steps: what consumers say they had done before a message failed, over all attempts."""

from collections.abc import Iterable, Iterator

MOST_BYTES = 1024
"""UTF-8 bytes of the names that a retry carries: they go into a header."""

LOOKED_AT = 4 * MOST_BYTES
"""Characters of one attempt that are looked at; see `unite`."""

ATTRIBUTE = "completed_steps"
"""The attribute of an exception that says what was done before it was raised."""

_MOST_CAUSES = 20

_LARGEST = 2**63 - 1
_MOST_DIGITS = len(str(_LARGEST))
_FAILED = 32768
"""The flag with which a consumer says that it failed: no step that it has done."""


def unite(attempts: Iterable[str | None]) -> str | None:
    """Unite what the attempts of a message say, oldest first; None if none of them says anything.

    Flags, as decimal integers of up to 63 bits, are joined by *or*. Anything else is names with
    commas between them: each stays once, in the order in which it came. A step is never taken
    away. Of names that do not fit into 1 kB together, the later ones are left out, never cut: a
    consumer would do a step again, which it can bear, and not take one for another.
    """
    said = [text for text in attempts if text is not None and text.strip()]
    if not said:
        return None
    flags = [_read_flags(text) for text in said]
    if None not in flags:
        return str(_join(each for each in flags if each is not None))
    return ",".join(_fitting(dict.fromkeys(name for text in said for name in _names(text))))


def read_said(value: object) -> tuple[str, ...]:
    """Return what a program says in one value: a name, flags as an integer, or several of them."""
    match value:
        case str():
            return (value,)
        case bool():
            return ()
        case int():
            return (str(value),)
        case list() | tuple() | set() | frozenset():
            return tuple(text for each in value for text in read_said(each))
        case _:
            return ()


def find_said(error: BaseException) -> tuple[str, ...]:
    """Return what an exception says of completed steps, and those that are its causes."""
    said: list[str] = []
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if found is None:
            break
        said[:0] = read_said(getattr(found, ATTRIBUTE, None))
        found = found.__cause__
    return tuple(said)


def _read_flags(text: str) -> int | None:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        return None
    flags = int(digits)
    return flags if flags <= _LARGEST else None


def _join(flags: Iterable[int]) -> int:
    joined = 0
    for each in flags:
        joined |= each
    return joined & ~_FAILED


def _names(text: str) -> Iterator[str]:
    # The last name of a text of which no more was read may be the beginning of a longer one.
    whole = text if len(text) < LOOKED_AT else text[: text.rfind(",") + 1]
    yield from filter(None, map(str.strip, whole.split(",")))


def _fitting(names: Iterable[str]) -> Iterator[str]:
    left = MOST_BYTES + 1
    for name in names:
        left -= len(name.encode()) + 1
        if left < 0:
            return
        yield name
