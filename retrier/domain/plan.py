"""Plans: what a preview counted, as a token that the act can name, so that it does no more."""

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import accumulate, pairwise

from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection, chosen_parts

LONGEST = 60_000
"""Characters of a token at most; nearly all have less than 200."""

MOST_NUMBERS = 10_000
"""Numbers that a plan can hold; with more there, it cannot say exactly what was counted."""

RETRY = "retry"
RETRY_AGAIN = "retry again"
READ_AGAIN = "read again"
RELEASE = "release"
"""Acts of which a plan can be, beside those of message_actions."""

OF_ANOTHER = "The plan is of another act, or of another selection"
INEXACT = (
    f"The plan cannot say exactly which messages were counted: more than {MOST_NUMBERS:,} of them "
    "would have to be named"
)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a preview counted.

    `subject` is the hash of the act and of its selection. All that came to match up to the number
    `counted_to` was seen, and nothing later: failures, archives, recorded sends and failed imports
    take their numbers from one counter. `at` is the time of the preview, for ages. `cut_off` is the
    failure number of the last message that was counted, which a limit makes lower than
    `counted_to`. `total` is how many were counted.

    `numbers` are failure numbers: of a retry those below the cut-off that another retry had
    claimed, and that were not counted; of a stream those that are to be released. None: too many.
    """

    subject: str
    counted_to: int
    cut_off: int
    total: int
    at: datetime
    numbers: tuple[int, ...] | None = ()

    @property
    def token(self) -> str:
        """The plan as an opaque text, for an address or JSON."""
        at = (self.at - _EPOCH) // _MICROSECOND
        parts = f"{self.subject}.{self.counted_to}.{self.cut_off}.{self.total}.{at}."
        packed = b"-" if self.numbers is None else _pack(self.numbers)
        return urlsafe_b64encode(parts.encode() + packed).decode().rstrip("=")


def read_plan(token: str) -> Plan | None:
    """Return the plan of a token; None if it is no token."""
    if len(token) > LONGEST:
        return None
    try:
        padded = token + "=" * (-len(token) % 4)
        subject, *fields, packed = urlsafe_b64decode(padded.encode()).split(b".", 5)
        counted_to, cut_off, total, at = (int(each) for each in fields)
        numbers = None if packed == b"-" else _unpack(packed)
        digest, when = subject.decode(), _EPOCH + at * _MICROSECOND
    except (ValueError, OverflowError, zlib.error):
        return None
    known = (counted_to, cut_off, total, at, *(numbers or ()))
    if not _DIGEST.fullmatch(digest) or not all(0 <= each < _LARGEST for each in known):
        return None
    return Plan(
        subject=digest,
        counted_to=counted_to,
        cut_off=cut_off,
        total=total,
        at=when,
        numbers=numbers,
    )


def hash_subject(act: str, selection: Selection, *more: str) -> str:
    """Return the hash of an act and its selection: equal for equal ones, in any order of their ids.

    `more` is what else says what was asked for, such as an age, which is another time each moment.
    """
    ids = None if selection.ids is None else sorted(set(selection.ids))
    parts: dict[str, object] = dict(chosen_parts(selection))
    if selection.pending:
        parts["pending"] = selection.sent_to or True
    if selection.modified is not None:
        parts["modified"] = [each.isoformat() for each in selection.modified]
    return _hash({"act": act, "ids": ids, "parts": parts, "more": more})


def hash_words(act: str, *words: str) -> str:
    """Return the hash of an act on something that is no selection of messages."""
    return _hash({"act": act, "words": words})


def _hash(subject: dict[str, object]) -> str:
    return sha256(json.dumps(subject, sort_keys=True).encode()).hexdigest()


def as_counted(selection: Selection, plan: Plan) -> Selection:
    """Return a selection without what came to match it after the preview; named ids as they are."""
    if selection.ids is not None:
        return selection
    return replace(selection, counted_to=plan.counted_to)


def within(request: RetryRequest, plan: Plan) -> RetryRequest:
    """Bound a request by an exact plan: it takes what was counted, and nothing else.

    Of one that counted nothing the cut-off is bound enough: a limit is at least 1.
    """
    limit = min(request.terms.limit or plan.total, plan.total) or request.terms.limit
    selection = as_counted(request.selection, plan)
    if selection.ids is None:
        selection = replace(selection, passed_over=plan.numbers or ())
    terms = replace(request.terms, limit=limit)
    return replace(request, selection=selection, cut_off=plan.cut_off, terms=terms)


def hold_numbers(numbers: Sequence[int]) -> tuple[int, ...] | None:
    """Return the numbers as a plan holds them, ascending; None if there are too many."""
    return tuple(sorted(numbers)) if len(numbers) <= MOST_NUMBERS else None


def _pack(numbers: Iterable[int]) -> bytes:
    steps = (after - before for before, after in pairwise((0, *numbers)))
    text = " ".join(map(str, steps))
    return zlib.compress(text.encode(), 9) if text else b""


def _unpack(packed: bytes) -> tuple[int, ...]:
    """Unpack numbers; no more bytes than an honest token has. Raises ValueError, zlib.error."""
    if not packed:
        return ()
    reader = zlib.decompressobj()
    text = reader.decompress(packed, MOST_NUMBERS * 20)
    if not reader.eof:
        raise ValueError("it is longer than any plan")
    numbers = tuple(accumulate(int(each) for each in text.split()))
    if len(numbers) > MOST_NUMBERS:
        raise ValueError("it has more numbers than any plan")
    return numbers
