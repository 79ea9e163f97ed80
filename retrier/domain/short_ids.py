"""Short ids: the beginning of an id stands for all ids that begin so, as a range."""

from dataclasses import dataclass

from retrier.domain.identity import canonical, is_guid

SHORTEST = 8
"""Characters of a short id at least: fewer would fit too many ids."""

_FIRST = "00000000-0000-0000-0000-000000000000"
_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Ids from the first to the last, both included."""

    first: str
    last: str


def ids_beginning(text: str) -> IdRange | None:
    """Return the range of ids that begin with the text, in either case; None if no id can.

    Both ends are whole ids: compared with ids they sort alike under every collation, as digits
    come before letters and the dashes are all in the same places.
    """
    beginning = canonical(text)
    whole = beginning + _FIRST[len(beginning) :]
    if len(beginning) < SHORTEST or not is_guid(whole):
        return None
    return IdRange(first=whole, last=beginning + _LAST[len(beginning) :])
