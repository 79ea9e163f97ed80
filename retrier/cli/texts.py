"""Text on its way to a terminal: what came with a message may move no cursor and hide nothing."""

from datetime import datetime

SHORT_ID = 8
"""Characters of an id that lists show, and that commands take in its place."""

_TAB = "    "


def harmless(text: str) -> str:
    """Return text whose lines and spaces stay and whose other control characters are written out.

    Terminals obey escape sequences and reorder text around marks of direction; both would let a
    message lie about itself.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else _written_out(each)
        for each in text.replace("\r\n", "\n").replace("\t", _TAB)
    )


def one_line(text: object) -> str:
    """Return text as one line that a table can show; None is nothing."""
    return "" if text is None else " ".join(harmless(str(text)).split())


def short_id(whole: object) -> str:
    """Return the beginning of an id."""
    return one_line(whole)[:SHORT_ID]


def moment(text: object) -> str:
    """Return a time of the API, which is UTC, to the second."""
    return _formatted(text, "%Y-%m-%d %H:%M:%SZ")


def minute(text: object) -> str:
    """Return a time of the API to the minute, for lists; their titles say that it is UTC."""
    return _formatted(text, "%Y-%m-%d %H:%M")


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 message`, `2,500 messages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _formatted(text: object, form: str) -> str:
    try:
        return datetime.fromisoformat(str(text)).strftime(form)
    except ValueError:
        return one_line(text)


def _written_out(character: str) -> str:
    return " " if character.isspace() and character not in "\r\v\f" else ascii(character)[1:-1]
