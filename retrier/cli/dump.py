"""Bytes that nobody has understood, for people to look at: the beginning of a text, or a dump."""

from collections.abc import Iterator

from retrier.cli.printer import Printer, counted

_SHOWN_TEXT = 2_000
"""Characters of a body that are shown; --output writes all of it."""
_SHOWN_BYTES = 256
_IN_A_LINE = 16
_LETTERS = range(0x20, 0x7F)


def show_text(printer: Printer, text: str, size: int) -> None:
    """Print the beginning of a text of so many bytes."""
    shown = text[:_SHOWN_TEXT]
    if len(shown.encode()) < size:
        printer.block(f"body, the beginning of {counted(size, 'byte')}", shown)
    else:
        printer.block("body", shown)


def show_bytes(printer: Printer, title: str, data: bytes, size: int) -> None:
    """Print the beginning of bytes, of which there are so many, as a dump."""
    shown = data[:_SHOWN_BYTES]
    part = f", the first {len(shown):,} of {counted(size, 'byte')}" if len(shown) < size else ""
    printer.block(f"{title}{part}", "\n".join(_dump(shown)))


def _dump(data: bytes) -> Iterator[str]:
    """Walk the lines of a dump: place, bytes, and the letters among them."""
    for start in range(0, len(data), _IN_A_LINE):
        line = data[start : start + _IN_A_LINE]
        letters = "".join(chr(each) if each in _LETTERS else "." for each in line)
        yield f"{start:04x}  {line.hex(' '):<{_IN_A_LINE * 3 - 1}}  {letters}"
