"""The text of a message that is searched: all that it shows, folded so that case does not matter."""

import re
from functools import lru_cache
from hashlib import blake2b
from unicodedata import is_normalized, normalize

from retrier.domain.failed_message import FailureDetails
from retrier.domain.text import LONG_BYTES, clean

BETWEEN = "\U0010fffd"
"""Stands between the parts. No text that was folded has it, so no wanted text reaches over two."""

_NO_LETTERS = re.compile(f"[\ufffe\uffff{BETWEEN}]")
_INSTEAD = "\ufffd"
"""Stands for them: SQLite's comparison takes the first two for it, and PostgreSQL's does not."""
_LONG_FOLDS = ((0xDF, 0x149), (0x1F0, 0x1F0), (0x390, 0x3B0), (0x587, 0x587), (0x1E96, 0x1FFC))
_LIGATURES = (0xFB00, 0xFB17)


def _simple_folds() -> dict[str, str]:
    """Return the characters that Python folds into several, and what each of them becomes here.

    Unicode's simple folding (CaseFolding.txt, statuses C and S) has one character for each: of
    these it changes only those with a lower case that is one character. `ß` and `ss` differ.
    """
    ranges = (range(first, last + 1) for first, last in (*_LONG_FOLDS, _LIGATURES))
    several = (each for codes in ranges for each in map(chr, codes) if len(each.casefold()) > 1)
    return {each: low if len(low := each.lower()) == 1 else each for each in several}


_SIMPLE = _simple_folds()
_SEVERAL = re.compile(f"([{''.join(_SIMPLE)}])")


def fold(text: str) -> str:
    """Return text as it is compared: in NFC, with Unicode's simple case folding.

    The same for what is stored and for what is wanted, so both databases compare alike. A text
    that is folded stays as it is.
    """
    if text.isascii():
        return text.lower()
    folded = _fold_simply(_composed(text))
    return _NO_LETTERS.sub(_INSTEAD, _composed(folded))


def _composed(text: str) -> str:
    return text if is_normalized("NFC", text) else normalize("NFC", text)


def _fold_simply(text: str) -> str:
    parts = _SEVERAL.split(text)
    if len(parts) == 1:
        return text.casefold()
    # Every second part is one of the characters that Python would make several of.
    return "".join(
        _SIMPLE[part] if place % 2 else part.casefold() for place, part in enumerate(parts)
    )


def searched_text(details: FailureDetails, reason: str | None) -> str:
    """Return the folded text of a message that shows this failure, as long as its texts are kept.

    `reason` is what the failure is classified under; the headers' own word is in the details.
    """
    message = details.exception_message
    return BETWEEN.join(
        [
            _fold_name(details.message_type),
            _fold_name(details.exception_type),
            fold(clean(message, LONG_BYTES)) if message else "",
            _fold_name(details.queue),
            _fold_name(details.endpoint),
            _fold_name(details.failure_reason),
            _fold_name(reason),
        ]
    )


# Nearly all messages have the same few names.
@lru_cache(maxsize=1024)
def _fold_name(name: str | None) -> str:
    return fold(clean(name)) if name else ""


def with_reason(folded: str, reason: str | None) -> str:
    """Return a searched text with another reason, under which a person or a policy has put it."""
    before, _, _ = folded.rpartition(BETWEEN)
    return f"{before}{BETWEEN}{_fold_name(reason)}"


def digest_of(folded: str) -> str:
    """Return the hash by which equal texts are found, as 32 hexadecimal digits."""
    return blake2b(folded.encode(), digest_size=16).hexdigest()
