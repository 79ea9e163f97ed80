"""Where the stamps of a staged copy lie in its header table: found without looking at the rest.

Forwarding wants the stamps of a copy twice: to know the copy, and to take them off again. It would
walk a few dozen headers for that each time. So the stamps are the last entries of the table, in
one order, and behind them a layout header, whose own size never changes, says where in the table
the first of them begins:

    message's headers, retry headers, OWN[0] | OWN[1], SHARED ..., LAYOUT = "0000000981"
    `------ stays on the forwarded message -'---------- is cut off --------------------'

Only a table that has just these entries from the place its last ten bytes name up to its end is
as it was written. In any other nothing is found, and it is walked: a broker sorted it or put a
counter in, it is wrapped up in the last header of another message, or somebody made it by hand.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from retrier.domain import headers
from retrier.domain.amqp_table import LENGTH, Span, text, text_entry, text_head

OWN = (headers.UNIQUE_MESSAGE_ID, headers.BODY_SIZE)
"""Each copy has its own. The first of them stays on the forwarded message."""
SHARED = (
    headers.STAGING_ID,
    headers.INSTALLATION_ID,
    headers.TARGET_ADDRESS,
    headers.ORIGINAL_FIELDS,
)
"""Most copies of a batch have the same, so they are written once for many, and read once."""
_DIGITS = 10
"""As many as the length of a table may have."""
_LAYOUT_HEAD = text_entry(headers.LAYOUT, "0" * _DIGITS)[:-_DIGITS]


def with_stamps(kept: bytes, stamps: Mapping[str, str]) -> bytes:
    """Return the table in which the stamps lie behind what is kept. Raises ValueError."""
    own = [text_entry(name, stamps[name]) for name in OWN]
    shared = _encode(tuple([stamps[name] for name in SHARED]))
    return b"".join([kept, *own, shared, b"%0*d" % (_DIGITS, len(kept))])


def find_stamps(raw: bytes, start: int, end: int) -> tuple[list[Span], Mapping[str, str]] | None:
    """Return where the values of `OWN` lie and what the others say, of a table in these bounds."""
    place = raw[end - _DIGITS : end]
    own = _values(raw, start + int(place), OWN) if place.isdigit() else []
    shared = _decode(raw[own[-1][1] : end - _DIGITS]) if own else {}
    return (own, shared) if shared else None


@lru_cache(maxsize=128)
def _encode(shared: tuple[str, ...]) -> bytes:
    """Return the entries from the first shared one up to the number in the layout header."""
    entries = [text_entry(name, value) for name, value in zip(SHARED, shared, strict=True)]
    return b"".join([*entries, _LAYOUT_HEAD])


@lru_cache(maxsize=128)
def _decode(content: bytes) -> Mapping[str, str]:
    """Read what `_encode` made; nothing for anything else."""
    values = _values(content, 0, SHARED)
    if not values or content[values[-1][1] :] != _LAYOUT_HEAD:
        return {}
    spans = zip(SHARED, values, strict=True)
    return {name: text(content[start:end]) for name, (start, end) in spans}


def _values(raw: bytes, at: int, names: Sequence[str]) -> list[Span]:
    """Return where the values of these entries lie, the first entry there; nothing for others."""
    found = []
    for head in map(text_head, names):
        value = at + len(head) + LENGTH
        if not raw.startswith(head, at):
            return []
        at = value + int.from_bytes(raw[value - LENGTH : value])
        found.append((value, at))
    return found
