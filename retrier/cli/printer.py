"""Prints tables and sheets: in colour on a terminal, as plain aligned text elsewhere.

Answers go to standard output and remarks to standard error, so that a pipe has answers only.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from textwrap import indent
from typing import Any, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from retrier.cli.api_client import Listing
from retrier.domain.values import dataclass

T = TypeVar("T")

SHORT_ID = 8
"""Characters of an id that lists show; commands accept them instead of the whole id."""

_TAB = "    "
_AT_ONCE = 500
"""Lines that are written at once of many: a page of most lists."""


def harmless(text: str) -> str:
    """Return text with its lines and spaces, in which other control characters are escaped.

    Terminals obey escape sequences, and reorder text at direction marks. With either of them a
    message could make a terminal show something false.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else _written_out(each)
        for each in text.replace("\r\n", "\n").replace("\t", _TAB)
    )


def one_line(text: object) -> str:
    """Return text as one line that a table can show; None gives an empty text."""
    return "" if text is None else " ".join(harmless(str(text)).split())


def short_id(whole: object) -> str:
    """Return the beginning of an id."""
    return one_line(whole)[:SHORT_ID]


def moment(text: object) -> str:
    """Format a time of the API, which is UTC, to the second."""
    return _formatted(text, "%Y-%m-%d %H:%M:%SZ")


def minute(text: object) -> str:
    """Format a time of the API to the minute, for lists, whose titles say that it is UTC."""
    return _formatted(text, "%Y-%m-%d %H:%M")


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 message`, `2,500 messages`, `2 retries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}ies" if noun[-2:] == "ry" else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: `45 s`, `3 min 20 s`, `2 d 5 h`."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def none_of(found: Listing[T], noun: str, nothing: str) -> str:
    """Return what to say of a page without items: there may be some on earlier pages."""
    return f"0 of {counted(found.total, noun)}: this page is empty" if found.total else nothing


def _formatted(text: object, form: str) -> str:
    try:
        return datetime.fromisoformat(str(text)).strftime(form)
    except ValueError:
        return one_line(text)


def _written_out(character: str) -> str:
    return " " if character.isspace() and character not in "\r\v\f" else ascii(character)[1:-1]


WIDE = 100
"""Width from which a terminal has room for extra columns, in characters."""

_GAP = "  "
_STYLES: Mapping[str, str] = {
    "unresolved": "red",
    "retryIssued": "yellow",
    "resolved (confirmed)": "green",
    "resolved (presumed)": "green dim",
    "resolved (byHand)": "green",
    "resolved (edited)": "green",
    "archived": "dim",
    "waiting": "yellow",
    "preparing": "yellow",
    "forwarding": "cyan",
    "paused": "magenta",
    "completed": "green",
    "cancelled": "dim",
    "ok": "green",
    "off": "bold red",
}
"""Colours of words, in every table that shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table. A flexible column is cut if the terminal is too narrow for all.

    Of the room that is left flexible columns get shares by `weight`. An extra column is left out on
    terminals of fewer than 100 characters, and there a `time` of this year is shown without it. A
    column `below` is told below the table, with the first one, where it leaves others no room.
    """

    title: str
    flexible: bool = False
    extra: bool = False
    number: bool = False
    time: bool = False
    below: bool = False
    weight: int = 1


class Printer:
    """Prints to standard output and standard error, or to the consoles it is given."""

    def __init__(
        self,
        out: Console | None = None,
        err: Console | None = None,
        *,
        as_json: bool = False,
        year: int | None = None,
    ) -> None:
        """With `as_json` what is shown is a document for a program, not words for a person.

        `year` is that of today, which a narrow terminal need not be told.
        """
        self.year = year
        self.out = out or _console(stderr=False)
        self.err = err or _console(stderr=True)
        self.as_json = as_json
        self._going_on: tuple[Sequence[Column], Sequence[int]] | None = None

    def show(self, document: T, for_people: str | Callable[["Printer", T], object]) -> None:
        """Print an answer: the document as JSON, or for people a line, or what is printed of it."""
        if self.as_json:
            self.document(document)
        elif isinstance(for_people, str):
            self.line(for_people)
        else:
            for_people(self, document)

    def show_list(
        self,
        found: Listing[T],
        for_people: Callable[["Printer", Sequence[T]], object],
        noun: str,
        nothing: str,
    ) -> None:
        """Print a list; for people with how many of them there are, or `nothing` if it is empty."""
        self.show_parts(iter([found]), for_people, noun, nothing)

    def show_parts(
        self,
        parts: Iterator[Listing[T]],
        for_people: Callable[["Printer", Sequence[T]], object],
        noun: str,
        nothing: str,
    ) -> None:
        """Print a list that comes in parts, each as it comes: nothing is kept until the end.

        How many there are is said as the first part tells it.
        """
        first = next(parts)
        if self.as_json:
            self._document_of(first, parts)
        elif first.items:
            shown = 0
            self._going_on = ((), ())
            for part in chain([first], parts):
                if part.items:
                    for_people(self, part.items)
                    shown += len(part.items)
            self._going_on = None
            self.note(f"{shown:,} of {counted(max(first.total, shown), noun)}")
        else:
            self.note(none_of(first, noun, nothing))

    def _document_of(self, first: Listing[T], parts: Iterator[Listing[T]]) -> None:
        """Print the same bytes as `document` does of the whole list."""
        self.out.file.write(f'{{\n  "total": {first.total},\n  "items": [')
        before = "\n"
        for part in chain([first], parts):
            for item in part.items:
                # In ASCII, and line breaks within texts are escaped: each line can be moved in.
                self.out.file.write(before + indent(json.dumps(item, indent=2), "    "))
                before = ",\n"
            self.out.file.flush()
        end = "]" if before == "\n" else "\n  ]"
        self._write([f"{end}\n}}"])

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
        """Print one line per row; cells may be any text, and each is shown as one line."""
        lines = [[one_line(cell) for cell in row] for row in rows]
        if not self.out.is_terminal:
            naturals, is_new = self._grow(columns, lines)
            self._write(_aligned(columns, lines, naturals)[0 if is_new else 1 :])
            return
        if not self._is_wide:
            kept = [n for n, each in enumerate(columns) if not each.extra]
            columns = [columns[n] for n in kept]
            lines = [
                [self._shortened(columns[i], line[n]) for i, n in enumerate(kept)] for line in lines
            ]
        below = _find_below(columns, _naturals(columns, lines), self.out.width)
        if below is None:
            self._print_table(columns, lines)
            return
        rest = [n for n in range(len(columns)) if n != below]
        self._print_table([columns[n] for n in rest], [[line[n] for n in rest] for line in lines])
        self.heading(columns[below].title)
        # Once, and not in each of 200 lines: what holds one often holds them all.
        for text in dict.fromkeys(line[below] for line in lines if line[below]):
            self._line("", text)
            self._line(_GAP + ", ".join(line[0] for line in lines if line[below] == text), "")

    def _print_table(self, columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> None:
        naturals, is_new = self._grow(columns, lines)
        table = _rich_table(columns, lines, _widths(columns, naturals, self.out.width))
        table.show_header = is_new
        self.out.print(table)

    def _grow(
        self, columns: Sequence[Column], lines: Sequence[Sequence[str]]
    ) -> tuple[Sequence[int], bool]:
        """Return how wide the columns would be that are not cut, and whether they need a heading.

        Where a table goes on no column gets narrower than it was.
        """
        naturals: Sequence[int] = _naturals(columns, lines)
        if self._going_on is None:
            return naturals, True
        before, widths = self._going_on
        is_new = list(before) != list(columns)
        if not is_new:
            naturals = [max(each) for each in zip(widths, naturals, strict=True)]
        self._going_on = (columns, naturals)
        return naturals, is_new

    def _shortened(self, column: Column, cell: str) -> str:
        return cell.removeprefix(f"{self.year}-") if column.time else cell

    def sheet(self, fields: Mapping[str, object]) -> None:
        """Print names with their values, one per line; names without a value are left out."""
        shown = {
            one_line(name): one_line(value) for name, value in fields.items() if value is not None
        }
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            self._line(f"{name:<{width}}", _GAP + value)

    def block(self, title: str, text: str) -> None:
        """Print text of several lines below its title; nothing if the text is empty."""
        if text:
            self.heading(title)
            self._line("", harmless(text).rstrip("\n"))

    def heading(self, title: str) -> None:
        """Print the title of what follows."""
        self._line("", "")
        self._line(f"{title}:", "")

    def line(self, text: str) -> None:
        """Print one line of an answer."""
        self._line("", one_line(text))

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines for another program as they come: plain, without colours or wrapping."""
        left = iter(texts)
        while some := list(islice(left, _AT_ONCE)):
            self._write(one_line(text) for text in some)

    def text(self, text: str) -> None:
        """Print text of several lines."""
        self._line("", harmless(text))

    def note(self, text: str) -> None:
        """Print a remark for a person, to standard error."""
        self.err.print(Text(harmless(text)), soft_wrap=True)

    def document(self, value: object) -> None:
        """Print one JSON document, in ASCII: no escape sequence can mislead the terminal."""
        self._write([json.dumps(value, indent=2)])

    def record(self, value: object) -> None:
        """Print one JSON document as one line, for a reader who takes one after the other."""
        self.records([value])

    def records(self, values: Iterable[object]) -> None:
        """Print one line for each of several."""
        self._write(json.dumps(value) for value in values)

    def raw(self, data: bytes) -> None:
        """Print bytes as they are."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    @property
    def _is_wide(self) -> bool:
        return self.out.width >= WIDE

    def _line(self, label: str, text: str) -> None:
        if self.out.is_terminal:
            self.out.print(Text.assemble((label, "bold"), text), soft_wrap=True)
        else:
            self._write([(label + text).rstrip()])

    def _write(self, lines: Iterable[str]) -> None:
        self.out.file.write("".join(f"{line}\n" for line in lines))
        # Flushed here, not at exit: if the reader has closed the pipe, the command ends quietly.
        self.out.file.flush()


def _console(*, stderr: bool) -> Console:
    # All off: text of messages must not be read as markup or emoji names, or be coloured.
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


_ROOM = 40
"""Characters that a flexible column is left before another one is told below the table."""

_FILLED = 60
"""Characters to which a flexible column is filled up where there is no terminal: one long text must
not move what follows it out of sight in all other lines."""


def _naturals(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide the columns would be that are not cut."""
    return [
        max(cell_len(column.title), *(cell_len(line[n]) for line in lines), 0)
        for n, column in enumerate(columns)
    ]


def _find_below(columns: Sequence[Column], naturals: Sequence[int], width: int) -> int | None:
    """Return the column that is told below the table, or None if there is none."""
    found = next((n for n, each in enumerate(columns) if each.below), None)
    if found is None:
        return None
    least = (
        min(natural, _ROOM) if each.flexible and n != found else natural
        for n, (each, natural) in enumerate(zip(columns, naturals, strict=True))
    )
    return found if sum(least) + len(_GAP) * (len(columns) - 1) > width else None


def _widths(columns: Sequence[Column], naturals: Sequence[int], width: int) -> list[int]:
    """Share the width of a terminal: flexible columns get by their weight what the others leave."""
    widths = list(naturals)
    # One that may stand below is not cut: there is room for it, or it is not among these.
    open_ones = {n for n, each in enumerate(columns) if each.flexible and not each.below}
    left = width - len(_GAP) * (len(columns) - 1)
    left -= sum(each for n, each in enumerate(widths) if n not in open_ones)
    while open_ones:
        weight = sum(columns[n].weight for n in open_ones)
        fitting = {n for n in open_ones if widths[n] * weight <= left * columns[n].weight}
        if not fitting:
            break
        left -= sum(widths[n] for n in fitting)
        open_ones -= fitting
    for n in sorted(open_ones):
        weight = sum(columns[each].weight for each in open_ones if each >= n)
        widths[n] = max(1, left * columns[n].weight // weight)
        left -= widths[n]
    return widths


def _rich_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], widths: Sequence[int]
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        justify: Any = "right" if column.number else "left"
        table.add_column(_cell(column.title), justify=justify, no_wrap=True, width=width)
    for row in rows:
        table.add_row(*(_cell(text) for text in row))
    return table


def _cell(text: str) -> Text:
    return Text(text, style=_STYLES.get(text, ""), no_wrap=True, overflow="ellipsis")


def _aligned(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], naturals: Sequence[int]
) -> list[str]:
    """Return whole lines; a flexible column is not filled up to its longest text."""
    lines = [[column.title for column in columns], *rows]
    widths = [
        min(natural, _FILLED) if column.flexible else natural
        for column, natural in zip(columns, naturals, strict=True)
    ]
    return [_join(columns, line, widths) for line in lines]


def _join(columns: Sequence[Column], line: Sequence[str], widths: Sequence[int]) -> str:
    cells = (
        cell.rjust(width) if column.number else cell.ljust(width)
        for column, cell, width in zip(columns, line, widths, strict=True)
    )
    return _GAP.join(cells).rstrip()
