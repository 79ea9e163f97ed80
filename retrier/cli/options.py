"""Options of several commands, and the search for whole ids by shortened ones."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import httpx
import typer

from retrier import __version__
from retrier.cli.api_client import ApiClient, Json, Listing
from retrier.cli.command import tools_of
from retrier.cli.printer import counted
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
        if self.limit is not None and (self.page or self.per_page):
            raise typer.BadParameter("--limit goes with neither --page nor --per-page.")
        if self.limit is not None:
            return api.first(self.limit, *path, **params)
        return api.page(*path, **params, page=self.page or 1, per_page=self.per_page or 50)


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


_MOST_NAMED = 10
"""Ids that the error about an ambiguous one lists at most."""

Search = Callable[[str], Sequence[Json]]
"""Returns the items whose id begins with a text."""


def find_message_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a failed message. Raises RequestRefused if not exactly one fits."""
    return _find(text, "failed message", lambda prefix: _beginning(api, prefix, "errors"))


def find_operation_id(api: ApiClient, text: str) -> str:
    """Return the whole id of an operation. Raises RequestRefused if not exactly one fits."""
    return _find(text, "operation", lambda prefix: _beginning(api, prefix, "operations"))


def find_batch_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a batch alive. Raises RequestRefused if not exactly one fits."""
    return _find(
        text,
        "batch alive",
        lambda prefix: [
            each for each in api.page("batches").items if str(each["id"]).startswith(prefix)
        ],
    )


def find_group_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a group. Raises RequestRefused if not exactly one fits."""
    return _find(text, "group", lambda prefix: _groups_beginning(api, prefix))


def is_short(text: str) -> bool:
    """Say whether the text is the beginning of an id, and not a whole id."""
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
    # Groups are listed by classifier; only the service knows the names of all classifiers.
    return [
        each
        for name in api.texts("recoverability", "classifiers")
        for each in api.page(*groups, name, id_prefix=prefix).items
    ]
