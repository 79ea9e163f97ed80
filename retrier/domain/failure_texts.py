"""What people see of one failure, derived from its stored bytes, and the text by which it is found."""

import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from hashlib import blake2b
from unicodedata import is_normalized, normalize

from retrier.domain import dialects
from retrier.domain.dialects import dialect as dialect_of
from retrier.domain.dialects.accounts import read_stored, read_worker
from retrier.domain.failed_message import FailureDetails
from retrier.domain.text import LONG_BYTES, clean, jsonable, out_of_limits
from retrier.domain.values import dataclass
from retrier.domain.wire import Properties, PropertyCodec, UnreadableProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Headers and texts of a failure, as JSON and every database can hold them.

    `properties` are those beside the headers: of AMQP `content_encoding`, `correlation_id`, ...
    """

    headers: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    content_type: str | None = None
    endpoint: str | None = None
    exception_message: str | None = None
    stack_trace: str | None = None
    host: str | None = None
    host_id: str | None = None
    process: str | None = None
    node: str | None = None


NOTHING = Shown()
_UNKNOWN = FailureDetails(queue="", destination="")


def derive(
    codec: PropertyCodec, raw: bytes, *, dialect: str, otherwise: str | None = None
) -> Shown:
    """Return what the raw properties of a failure say, cut and cleaned. Never raises.

    `otherwise` is the queue it failed on: used if the headers name none, and to find again which
    of several accounts of the failure held. Bytes that this codec
    cannot read came from the other kind of broker: NOTHING is returned.
    """
    try:
        properties = codec.read(raw)
    except UnreadableProperties:
        return NOTHING
    details = _details(properties, dialect, otherwise) or _UNKNOWN
    content_type = dialect_of.amqp_field(properties, "content_type")
    return Shown(
        headers=jsonable(properties.headers),
        properties=jsonable(properties.fields),
        content_type=clean(content_type) if content_type else None,
        endpoint=details.endpoint,
        exception_message=details.exception_message,
        stack_trace=details.stack_trace,
        host=details.host,
        host_id=details.host_id,
        process=details.process,
        node=details.node,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionTexts:
    """Texts of the exception, how often a worker crashed over the message, and why it gave up."""

    exception_message: str | None = None
    stack_trace: str | None = None
    crashes: int = 0
    rejected: str | None = None


def read_said(
    codec: PropertyCodec, raw: bytes, *, dialect: str, otherwise: str | None = None
) -> ExceptionTexts:
    """Return what a policy looks at; quicker than `derive`, which makes it fit to be shown."""
    try:
        properties = codec.read(raw)
    except UnreadableProperties:
        return ExceptionTexts()
    details = _details(properties, dialect, otherwise)
    crashes, rejected = read_worker(properties)
    return ExceptionTexts(
        crashes=crashes,
        rejected=rejected,
        exception_message=details.exception_message if details else None,
        stack_trace=details.stack_trace if details else None,
    )


def _details(properties: Properties, dialect: str, otherwise: str | None) -> FailureDetails | None:
    """Return what the headers say, as ingestion understood it."""
    known = dialects.by_name(dialect)
    details = read_stored(known, properties, queue=otherwise) if known else None
    if not isinstance(details, FailureDetails):
        return None
    return replace(details, **out_of_limits(details))


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
