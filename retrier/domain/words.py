"""Words: by which a failed message is found in full text, and which a person looks for.

They are cut here and not by the database: so both databases find the same. A word is a run of
letters and digits, in lower case and as it is written, without a stem. What holds other characters,
such as `A-4711`, `ada@example.com` or `Shop.Orders.OrderPlaced`, is several words in a row.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from retrier.domain.dialects import by_name
from retrier.domain.dialects.dialect import amqp_field
from retrier.domain.failure_texts import derive, fold
from retrier.domain.text import jsonable
from retrier.domain.values import dataclass
from retrier.domain.wire import (
    Properties,
    PropertyCodec,
    UnreadableProperties,
    charset_of,
    packed_as,
    unpack,
)

LONGEST = 64
"""Characters of a word that are kept, and compared."""

MOST = 16_000
"""Words that are kept of a message: PostgreSQL knows no places behind the 16,383rd."""

MOST_ALIKE = 255
"""Places that are kept of one word of a message: PostgreSQL keeps no more."""

MOST_BYTES = 400_000
"""Bytes of UTF-8 of all words of a message: PostgreSQL refuses those with a megabyte."""

SHORTEST = 3
"""Characters of a word that may be meant as the beginning of another, unasked."""

GAP = "_"
"""Stands where a word was left out, and between two texts: no phrase reaches over it."""

_LOOKED_AT = 64 * 1024
"""Characters of a header or a stack trace that are read."""

# Of scripts that put no blanks between words each character is a word: so parts are found, too.
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_ALONE}]|[^\\W_{_ALONE}]+")
_PIECE = re.compile(r'"([^"]*)("\*?)?|(\S+)')


def words_in(text: str) -> list[str]:
    """Return the words of a text, in order, each cut to its length."""
    found: list[str] = _WORD.findall(fold(text))
    if len(max(found, key=len, default="")) > LONGEST:
        return [each[:LONGEST] for each in found]
    return found


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand in a row; with `goes_on` the last one is the beginning of a word."""

    words: tuple[str, ...]
    goes_on: bool = False


def read_wanted(text: str) -> tuple[Phrase, ...]:
    """Return what a person looks for: all of it has to be there. Any text can be looked for.

    What stands between blanks, or between quotation marks, is a phrase; a star behind it leaves its
    end open. What has neither letter nor digit says nothing; nothing at all finds no message.
    """
    return tuple(dict.fromkeys(_phrases(text)))


def _phrases(text: str) -> Iterator[Phrase]:
    for quoted, end, plain in _PIECE.findall(text):
        written = plain or quoted
        if found := words_in(written):
            # A star inside of the marks is meant like one behind them.
            yield Phrase(tuple(found), goes_on=end == '"*' or written.rstrip().endswith("*"))


def as_beginnings(text: str) -> str:
    """Return the same wanted as beginnings: `timeout*` finds `TimeoutException`, which is one word.

    What is shorter than SHORTEST stays whole: too much begins with it.
    """
    return " ".join(map(_as_beginning, read_wanted(text)))


def _as_beginning(phrase: Phrase) -> str:
    end = "*" if phrase.goes_on or len(phrase.words[-1]) >= SHORTEST else ""
    written = " ".join(phrase.words)
    return f'"{written}"{end}' if len(phrase.words) > 1 else f"{written}{end}"


def words_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a message that shows these texts, as they are stored; with GAPs."""
    words: list[str] = []
    for text in texts:
        if found := words_in(text):
            words += [GAP, *found] if words else found
        if len(words) >= MOST:
            break
    return tuple(_bounded(words[:MOST]))


def _bounded(words: list[str]) -> Iterable[str]:
    frequent = {word for word, count in Counter(words).items() if count > MOST_ALIKE} - {GAP}
    if not frequent and sum(map(len, words)) * 4 <= MOST_BYTES:
        return words
    return _within_bounds(words, frequent)


def _within_bounds(words: Iterable[str], frequent: set[str]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    room = MOST_BYTES
    for word in words:
        room -= len(word.encode())
        if room < 0:
            return
        seen[word] += 1
        yield GAP if word in frequent and seen[word] > MOST_ALIKE else word


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureBytes:
    """What is stored of a failure: where, the dialect in which it was read, and its bytes.

    `body` may be the beginning of a body of `size` bytes.
    """

    queue: str
    dialect: str
    raw: bytes
    body: bytes
    size: int


def read_words(codec: PropertyCodec, failure: FailureBytes, most: int) -> tuple[str, ...]:
    """Return the words of a failure, of its body those of the first `most` bytes. Never raises."""
    try:
        properties = codec.read(failure.raw)
    except UnreadableProperties:
        return ()
    return words_of(_texts(codec, failure, properties, most))


def _texts(
    codec: PropertyCodec, failure: FailureBytes, properties: Properties, most: int
) -> Iterator[str]:
    shown = derive(codec, failure.raw, dialect=failure.dialect, otherwise=failure.queue)
    known = by_name(failure.dialect)
    inside = None if known is None else known.unwrap(properties, failure.body)
    told = [failure.queue, shown.exception_message, shown.stack_trace]
    yield from (each for each in told[:-1] if each)
    for each in _header_texts(shown.headers):
        # The stack trace stands in a header, too: once is enough.
        if each not in told:
            yield each[:_LOOKED_AT]
    yield from _header_texts(shown.properties)
    if inside is None:
        yield _body_text(properties, failure.body, failure.size, most)
    else:
        yield from _header_texts(jsonable(inside.properties.headers))
        yield _body_text(inside.properties, inside.body, len(inside.body), most)
    if shown.stack_trace:
        yield shown.stack_trace[:_LOOKED_AT]


def _header_texts(values: Mapping[str, object]) -> Iterator[str]:
    """Yield what stands in headers; those that hold tables and lists have no end of levels."""
    waiting: list[object] = [*values.values()][::-1]
    while waiting:
        match waiting.pop():
            case dict() as table:
                waiting += [*table.values()][::-1]
            case list() as several:
                waiting += several[::-1]
            case None | bool():
                pass
            case value:
                yield str(value)


_MOST_UNREAD = 10
"""Of so many characters one may be unreadable."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[\"\\/bfnrt])")


def _body_text(properties: Properties, body: bytes, size: int, most: int) -> str:
    """Return the text of a body; empty if it is none.

    What JSON and XML write otherwise becomes the character that is meant.
    """
    packed = packed_as(properties.fields, properties.headers)
    plain = unpack(body, size, packed).content[:most]
    content_type = amqp_field(properties, "content_type") or ""
    text = plain.decode(charset_of(content_type, plain), "replace")
    # A text may have a few characters that cannot be read, and no NUL: else it is none.
    if "\0" in text or text.count("\ufffd") * _MOST_UNREAD > len(text):
        return ""
    beginning = text.lstrip("\ufeff \t\r\n")[:1]
    if beginning in ("{", "[", '"') and "\\" in text:
        text = _ESCAPED.sub(_meant, text)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    if beginning == "<" and "&" in text:
        return html.unescape(text)
    return text


def _meant(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else " "
