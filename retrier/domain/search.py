"""The one search box: what a person types, and the ways in which messages may be found by it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from retrier.domain.fields import PREFIX, FieldCondition, NoCondition, is_name, read_conditions
from retrier.domain.selection import Selection
from retrier.domain.text import clean
from retrier.domain.values import dataclass
from retrier.domain.words import as_beginnings, read_wanted


class By(StrEnum):
    """By what messages are found, the surest first."""

    FIELD = "field"
    WORDS = "words"
    TEXT = "text"
    BEGINNINGS = "beginnings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to find messages: the selection, and its conditions as they stand in an address."""

    by: By
    selection: Selection

    @property
    def conditions(self) -> Mapping[str, str]:
        """The conditions by their names."""
        chosen = self.selection
        fields = {each.key: each.text for each in chosen.fields}
        texts = {"words": chosen.words, "text": chosen.text}
        return {**fields, **{name: text for name, text in texts.items() if text is not None}}


_QUOTED = r'"(?:[^"]|"")*+"'
_PAIR = re.compile(
    rf"(?:^|(?<=\s))(?:{re.escape(PREFIX)})?([a-z][a-z0-9_-]*)=({_QUOTED}(?!\S)|\S+)"
)


def find_ways(text: str, names: Sequence[str], *, full_text: bool) -> Iterator[Way]:
    """Yield the ways in which a text may find messages; `names` are those of declared fields.

    `order=4711` is a condition on that field, if there is one, and the rest has to be found beside
    it. A value with blanks stands in quotation marks: `order="two words"`. Without such a
    condition the text may be the value of any field. The last way is for where
    the others find nothing: the words may be beginnings of longer ones.
    """
    wanted = clean(text.strip()).strip()
    if not wanted:
        return
    fields, rest = _split(wanted, names)
    if fields and not rest:
        yield Way(by=By.FIELD, selection=Selection(fields=fields))
        return
    for name in () if fields else names:
        try:
            condition = read_conditions([(name, _value(rest))])
        except NoCondition:
            continue  # it reads like half a range, and no field has that as its value
        yield Way(by=By.FIELD, selection=Selection(fields=condition))
    if full_text and read_wanted(rest):
        yield Way(by=By.WORDS, selection=Selection(words=rest, fields=fields))
    yield Way(by=By.TEXT, selection=Selection(text=rest, fields=fields))
    if full_text and read_wanted(begun := as_beginnings(rest)) != read_wanted(rest):
        yield Way(by=By.BEGINNINGS, selection=Selection(words=begun, fields=fields))


def _split(text: str, names: Sequence[str]) -> tuple[tuple[FieldCondition, ...], str]:
    """Take the conditions on fields out of a text; what cannot be one is a part of the rest."""
    found = {each[1]: each for each in _PAIR.finditer(text) if each[1] in names}
    try:
        given = [(name, _value(each[2])) for name, each in found.items()]
        conditions = read_conditions(given, names)
    except NoCondition:
        return (), text
    rest = text
    for each in found.values():
        rest = rest.replace(each[0], " ", 1)
    return conditions, " ".join(rest.split())


def _value(text: str) -> str:
    """Take the marks off a value; one that stands inside of them is written twice."""
    return text[1:-1].replace('""', '"') if re.fullmatch(_QUOTED, text) else text


def find_undeclared(text: str, names: Sequence[str]) -> Sequence[str]:
    """Return which names a text gives values as if they were declared fields, and are none."""
    given = (each[1] for each in _PAIR.finditer(clean(text.strip())))
    return [each for each in dict.fromkeys(given) if is_name(each) and each not in names]
