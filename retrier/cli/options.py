"""Options that several commands take, and short ids, which become whole ones."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import httpx
import typer

from retrier import __version__
from retrier.cli.api_client import ApiClient, Json, Listing
from retrier.cli.command import tools_of
from retrier.cli.printer import Printer, counted, one_line
from retrier.domain.identity import canonical, is_guid
from retrier.domain.text import SHORTEST, ids_beginning
from retrier.errors import ConfigurationError, RequestRefused
from retrier.settings import Settings, load_settings, redact

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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def load_config(config: Path | None) -> Settings:
    """Read file and environment. Raises ConfigurationError with every problem."""
    return load_settings(config, os.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Which service is asked, and how its answer is printed."""

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
        """Give a client of the service. Raises ConfigurationError."""
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

STANDARD_INPUT = "-"


def name_user(user: str) -> dict[bytes, bytes]:
    """Return the header that says who asks."""
    return {b"X-Retrier-User": one_line(user).encode()}


def with_standard_input(given: Sequence[str]) -> Iterator[str]:
    """Walk ids as they were given; a dash stands for those on standard input."""
    for text in given:
        if text == STANDARD_INPUT:
            yield from sys.stdin.read().split()
        else:
            yield text


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Which part of a list is wanted."""

    page: Annotated[
        int | None, typer.Option("--page", min=1, metavar="N", help="The page, from 1 on.")
    ] = None
    per_page: Annotated[
        int | None,
        typer.Option("--per-page", min=1, max=500, metavar="N", help="Items on a page."),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="The first N, however many pages."),
    ] = None

    def fetch(self, api: ApiClient, *path: str, **params: str | int) -> Listing:
        """Return that part of a list; by default its first 50 items."""
        if self.limit is not None and (self.page or self.per_page):
            raise typer.BadParameter("--limit goes with neither --page nor --per-page.")
        if self.limit is not None:
            return api.first(self.limit, *path, **params)
        return api.page(*path, **params, page=self.page or 1, per_page=self.per_page or 50)


def _check_url(url: str) -> str:
    """Return the base URL without a slash at its end, or /api, which people add."""
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
        raise ConfigurationError(["the token holds characters that no token has"])
    return token


_MOST_NAMED = 10
"""Candidates that an error names."""

Search = Callable[[str], Sequence[Json]]
"""Returns what has an id that begins so."""


def find_message_id(api: ApiClient, text: str) -> str:
    """Return the id of the failed message. Raises RequestRefused unless there is exactly one."""
    return _find(text, "failed message", lambda prefix: _beginning(api, prefix, "errors"))


def find_operation_id(api: ApiClient, text: str) -> str:
    """Return the id of the operation. Raises RequestRefused unless there is exactly one."""
    return _find(text, "operation", lambda prefix: _beginning(api, prefix, "operations"))


def find_import_id(api: ApiClient, text: str) -> str:
    """Return the id of the failed import. Raises RequestRefused unless there is exactly one."""
    return _find(text, "failed import", lambda prefix: _beginning(api, prefix, "imports"))


def note_imports(printer: Printer, api: ApiClient) -> None:
    """Remark that there are messages which no list of failures and no group shows."""
    total = api.page("imports", per_page=1).total
    if total:
        printer.note(f"{counted(total, 'message')} could not be read: `retrier imports list`")


def find_batch_id(api: ApiClient, text: str) -> str:
    """Return the id of the batch alive. Raises RequestRefused unless there is exactly one."""
    return _find(
        text,
        "batch alive",
        lambda prefix: [
            each for each in api.page("batches").items if str(each["id"]).startswith(prefix)
        ],
    )


def find_group_id(api: ApiClient, text: str) -> str:
    """Return the id of the failure group, whatever its classifier. Raises RequestRefused."""
    return _find(text, "group", lambda prefix: _groups_beginning(api, prefix))


def is_short(text: str) -> bool:
    """Say whether text can only be the beginning of an id."""
    return ids_beginning(text) is not None and not is_guid(text)


def _find(text: str, noun: str, search: Search) -> str:
    if is_guid(text):
        return canonical(text)
    if ids_beginning(text) is None:
        raise typer.BadParameter(
            f"{text!r} is no id: an id is hexadecimal digits and dashes, or its first {SHORTEST} "
            "characters or more."
        )
    found = [str(each["id"]) for each in search(canonical(text))]
    match found:
        case []:
            raise RequestRefused(f"No {noun} has an id that begins with {text}.")
        case [one]:
            return one
        case _:
            raise RequestRefused(_ambiguous(text, noun, found))


def _ambiguous(text: str, noun: str, found: Sequence[str]) -> str:
    named = "\n".join(f"  {each}" for each in sorted(found)[:_MOST_NAMED])
    several = counted(len(found), "id")
    return f"{several} of a {noun} begin with {text}; give more of the one you mean:\n{named}"


def _beginning(api: ApiClient, prefix: str, *path: str) -> Sequence[Json]:
    return api.page(*path, id_prefix=prefix).items


def _groups_beginning(api: ApiClient, prefix: str) -> Sequence[Json]:
    groups = ("recoverability", "groups")
    # A classifier's name is text like any other: the service lists the names.
    return [
        each
        for name in api.texts("recoverability", "classifiers")
        for each in api.page(*groups, name, id_prefix=prefix).items
    ]
