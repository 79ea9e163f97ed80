"""Manual pages of all commands, made from what `--help` shows: `retrier help --man-pages`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from retrier import __version__
from retrier.errors import ConfigurationError

_AS_IT_STANDS = "\b"
"""Begins a paragraph whose lines stay apart, as in the help."""


def write_pages(ctx: Any, folder: Path) -> int:
    """Write a page for each command into a folder; return how many. Raises ConfigurationError."""
    pages = dict(make_pages(ctx))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / f"{name}.1").write_text(page, encoding="utf-8")
    except OSError as error:
        problem = f"--man-pages: cannot write to {folder}: {error.strerror}"
        raise ConfigurationError([problem]) from error
    return len(pages)


def make_pages(ctx: Any) -> Iterator[tuple[str, str]]:
    """Make the page of a command and of all below it, each with its name, such as `retrier-groups`."""
    yield _name(ctx), "\n".join(_lines(ctx)) + "\n"
    for name, command in _commands(ctx).items():
        yield from make_pages(typer.Context(command, info_name=name, parent=ctx))


def _name(ctx: Any) -> str:
    path: str = ctx.command_path
    return path.replace(" ", "-")


def _commands(ctx: Any) -> Mapping[str, Any]:
    commands: Mapping[str, Any] = getattr(ctx.command, "commands", {})
    return commands


def _lines(ctx: Any) -> Iterator[str]:
    command: Any = ctx.command
    title = _name(ctx)
    yield f'.TH "{_plain(title.upper())}" "1" "" "retrier {__version__}" "Retrier"'
    yield ".SH NAME"
    yield f"{_plain(title)} \\- {_plain(command.get_short_help_str(1000).rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield f"\\fB{_plain(ctx.command_path)}\\fR {_plain(' '.join(command.collect_usage_pieces(ctx)))}"
    yield ".SH DESCRIPTION"
    yield from _text(command.help or "")
    records = [(each, each.get_help_record(ctx)) for each in command.get_params(ctx)]
    for heading, kind in (("ARGUMENTS", "argument"), ("OPTIONS", "option")):
        shown = [record for each, record in records if record and each.param_type_name == kind]
        yield from _terms(heading, shown)
    commands = _commands(ctx)
    listed = [(name, each.get_short_help_str(1000)) for name, each in commands.items()]
    yield from _terms("COMMANDS", listed)
    if command.epilog:
        yield ".SH NOTES"
        yield from _text(command.epilog)
    others = [f"{_name(ctx)}-{name}" for name in commands]
    if ctx.parent:
        others.insert(0, _name(ctx.parent))
    if others:
        yield ".SH SEE ALSO"
        yield ", ".join(f"\\fB{_plain(each)}\\fR(1)" for each in others)


def _terms(heading: str, records: list[tuple[str, str]]) -> Iterator[str]:
    """Write terms, each with what it means below it; no heading if there are none."""
    if records:
        yield f".SH {heading}"
    for term, meaning in records:
        yield ".TP"
        yield f"\\fB{_plain(term)}\\fR"
        yield _plain(meaning)


def _text(text: str) -> Iterator[str]:
    """Write paragraphs: those that are marked line by line, others filled."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip())):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        if number:
            yield ".PP"
        if lines[:1] == [_AS_IT_STANDS]:
            yield from (".nf", *map(_plain, lines[1:]), ".fi")
        else:
            yield _plain(" ".join(lines))


def _plain(text: str) -> str:
    """Return text that troff takes as it stands: it may neither be a request nor hold escapes."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
