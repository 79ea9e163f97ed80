"""Options of several commands."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import httpx
import typer

from retrier import __version__
from retrier.cli.api_client import ApiClient, Listing
from retrier.cli.command import ExitCode, tools_of
from retrier.cli.printer import Printer, counted, harmless, one_line
from retrier.domain.text import ids_beginning
from retrier.errors import ConfigurationError
from retrier.settings import (
    Settings,
    find_remarks,
    find_used_knobs,
    load_settings,
    read_env_file,
    redact,
)

DEFAULT_URL = "http://127.0.0.1:33333"
TOKEN = "RETRIER_TOKEN"  # noqa: S105 - the name of the variable, not a token

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings (YAML). Without it: the defaults and RETRIER_<SECTION>__<KEY>.",
    ),
]


def _take_env_file(path: Path | None) -> Path | None:
    """Add what the file says to the environment, where that says nothing of it."""
    try:
        for name, value in (read_env_file(path) if path else {}).items():
            os.environ.setdefault(name, value)
    except ConfigurationError as error:
        typer.echo(harmless(str(error)), err=True)
        raise typer.Exit(ExitCode.USAGE) from None
    return path


EnvFile = Annotated[
    Path | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        is_eager=True,  # before the options that have a variable
        callback=_take_env_file,
        help="Variables, as lines of NAME=value. What the environment has already wins.",
    ),
]
Word = TypeVar("Word", bound=StrEnum)


def one_of(words: type[Word]) -> Callable[[str], Word]:
    """Return a parser of an option's word, in any case. It raises BadParameter for any other."""

    def parse(text: str) -> Word:
        found = next((word for word in words if word.casefold() == text.casefold()), None)
        if found is None:
            raise typer.BadParameter(f"{text!r} is none of: {', '.join(words)}")
        return found

    return parse


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def load_config(config: Path | None) -> Settings:
    """Read settings from file and environment. Raises ConfigurationError with every problem."""
    return load_settings(config, os.environ)


def load_remarking(ctx: typer.Context, config: Path | None) -> Settings:
    """Read them, and remark what a person may not expect. Raises ConfigurationError."""
    settings = load_config(config)
    for remark in find_remarks(settings, config, os.environ):
        tools_of(ctx).printer.note(remark)
    return settings


def load_for_policies(ctx: typer.Context, config: Path | None) -> Settings:
    """Read them, and remark which names of other systems are used; addresses do not matter here.

    Raises ConfigurationError.
    """
    settings = load_config(config)
    for variable, key in find_used_knobs(config, os.environ).items():
        tools_of(ctx).printer.note(f"{variable} is used for {key}")
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Which service a command calls, and how the answer is printed."""

    url: Annotated[
        str,
        typer.Option("--url", envvar="RETRIER_URL", metavar="URL", help="Where the service is."),
    ] = DEFAULT_URL
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help=f"The file that holds the token. Without it: {TOKEN}, or no token.",
        ),
    ] = None
    as_json: AsJson = False

    @contextmanager
    def open(self, ctx: typer.Context) -> Iterator[ApiClient]:
        """Yield a client of the service. Raises ConfigurationError."""
        base = _check_url(self.url)
        token = _read_token(self.token_file)
        headers = {b"User-Agent": f"retrier/{__version__}".encode()}
        if token:
            headers[b"Authorization"] = f"Bearer {token}".encode()
        with tools_of(ctx).connect(base, headers) as http:
            yield ApiClient(http, redact(base))


Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to this file.")
]


def write_bytes(output: Path, data: bytes) -> None:
    """Write what was asked for to a file. Raises ConfigurationError."""
    try:
        output.write_bytes(data)
    except OSError as error:
        problem = f"--output: cannot write {output}: {error.strerror}"
        raise ConfigurationError([problem]) from error


User = Annotated[
    str, typer.Option("--user", envvar="USER", metavar="NAME", help="Who asks, for the log.")
]

NOBODY_ANSWERS = "There is nobody to answer: add --yes to go on unasked."
"""Said where a command would ask, and standard input gives no answer."""

STANDARD_INPUT = "-"


def name_user(user: str) -> dict[bytes, bytes]:
    """Return the header that says who asks."""
    return {b"X-Retrier-User": one_line(user).encode()}


def with_standard_input(given: Sequence[str]) -> Iterator[str]:
    """Walk ids as they were given; a dash stands for those on standard input, one on each line."""
    for text in given:
        if text == STANDARD_INPUT:
            for line in sys.stdin.read().split("\n"):
                yield from _ids_on(line.removesuffix("\r"))
        else:
            yield text


def _ids_on(line: str) -> Sequence[str]:
    """Return the ids on a line: several of ours, or one of a sender, which may hold blanks."""
    words = line.split()
    return words if all(ids_beginning(each) for each in words) else [line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Which part of a list is printed."""

    page: Annotated[
        int | None, typer.Option("--page", min=1, metavar="N", help="The page, from 1 on.")
    ] = None
    per_page: Annotated[
        int | None,
        typer.Option("--per-page", min=1, max=500, metavar="N", help="Items on a page."),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="The first N items of all pages."),
    ] = None

    def fetch(self, api: ApiClient, *path: str, **params: str | int) -> Listing:
        """Return that part of a list; by default its first 50 items."""
        limit = self._limit()
        if limit is not None:
            return api.first(limit, *path, **params)
        return api.page(*path, **params, page=self.page or 1, per_page=self.per_page or 50)

    def fetch_messages(self, api: ApiClient, *path: str, **params: str | int) -> Listing:
        """Do the same with a list of messages: none is missed while others leave it."""
        limit = self._limit()
        if limit is not None:
            return api.follow(limit, *path, **params)
        return self.fetch(api, *path, **params)

    def _limit(self) -> int | None:
        if self.limit is not None and (self.page or self.per_page):
            raise typer.BadParameter("--limit goes with neither --page nor --per-page.")
        return self.limit


def _check_url(url: str) -> str:
    """Return the base URL without a final slash or /api, which people add."""
    try:
        parts = httpx.URL(url)
        known = parts.scheme in ("http", "https") and parts.host and parts.port != 0
    except (httpx.InvalidURL, ValueError):
        known = False
    if not known:
        shown = redact(url)
        raise ConfigurationError([f"--url or RETRIER_URL: {shown} is no http:// or https:// URL"])
    return url.rstrip("/").removesuffix("/api")


def _read_token(file: Path | None) -> str:
    try:
        text = os.environ.get(TOKEN, "") if file is None else file.read_text()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError([f"--token-file: cannot read {file}: {reason}"]) from error
    token = text.strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigurationError(["the token holds characters that are not allowed in a token"])
    return token


def note_imports(printer: Printer, api: ApiClient) -> None:
    """Remark that there are messages which no list of failures and no group shows."""
    total = api.page("imports", per_page=1).total
    if total:
        printer.note(f"{counted(total, 'message')} could not be read: `retrier imports list`")
