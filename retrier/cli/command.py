"""What all commands share: options, exit codes, short ids, and the tools they work with."""

import json
import os
import re
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, field, fields, is_dataclass
from enum import IntEnum, StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar, get_type_hints
from urllib.parse import urlsplit

import typer
from typer.core import TyperCommand, TyperGroup

from retrier import __version__
from retrier.api.shapes import OnlyId
from retrier.api.shapes.operations import AskedRetry
from retrier.cli import editor
from retrier.cli.api_client import ApiClient, Late, Listing, WrongValue, address_of, fetch
from retrier.cli.logins import is_due, logins_of_this_person, renew
from retrier.cli.printer import SHORT_ID, Printer, counted, harmless, one_line, short_id
from retrier.clock import Clock, SystemClock
from retrier.domain.identity import canonical, is_guid
from retrier.domain.text import SHORTEST, ids_beginning, redact
from retrier.domain.values import dataclass
from retrier.errors import (
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    RequestRefused,
    RetrierError,
    ServiceUnavailable,
)

if TYPE_CHECKING:
    import httpx
else:
    httpx = Late("httpx")

P = ParamSpec("P")
C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")


class ExitCode(IntEnum):
    """The exit codes of all commands, for scripts."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    OUT_OF_REACH = 3
    INTERRUPTED = 130


def with_exit_code(command: Callable[P, None]) -> Callable[P, None]:
    """Turn a RetrierError of a command into text on standard error and an exit code."""

    @wraps(command)
    def run_command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except WrongValue as error:
            raise _as_typed(error, kwargs.get("ctx")) from None
        except RetrierError as error:
            typer.echo(harmless(str(error)), err=True)
            raise typer.Exit(_exit_code(error)) from None

    return run_command


def _as_typed(error: WrongValue, ctx: Any) -> typer.BadParameter:
    """Return it as a usage mistake, with the names that the values have on the command line."""
    if not error.reasons:
        return typer.BadParameter(harmless(str(error)))
    options = [name for each in ctx.command.params for name in each.opts] if ctx else []
    words = []
    for member, reason in error.reasons.items():
        # `body.selection.text`, `body.drop_headers.0`, `query.since`: the last name is the option.
        option = f"--{member.rstrip('.0123456789').rpartition('.')[2].replace('_', '-')}"
        plain = member.removeprefix("body.").removeprefix("query.")
        name = next((each for each in options if option in (each, f"{each}s")), plain)
        words.append(f"{name}: {reason}")
    return typer.BadParameter(harmless("\n".join(words)))


def _exit_code(error: RetrierError) -> ExitCode:
    match error:
        case ConfigurationError():
            return ExitCode.USAGE
        case BrokerUnavailable() | DatabaseUnavailable() | ServiceUnavailable():
            return ExitCode.OUT_OF_REACH
        case _:
            return ExitCode.REFUSED


class OneValueCommand(TyperCommand):
    """A command that refuses an option which takes one value and stands there twice.

    The last value would win in silence: `--queue a --queue b` would be about `b` alone.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse them, and count the options. Raises UsageError."""
        if not ctx.resilient_parsing:  # else a shell completes a line that is not written yet
            _, _, found = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(map(_name_of_single, found)).items():
                if option is not None and count > 1:
                    ctx.fail(f"{option} stands there {count} times, and takes one value.")
        return super().parse_args(ctx, args)


def _name_of_single(parameter: Any) -> str | None:
    """Return the name of an option that takes one value; None for all else."""
    is_option = parameter.param_type_name == "option"
    single = is_option and not (parameter.multiple or parameter.is_flag or parameter.count)
    return str(parameter.opts[0]) if single else None


class _App(typer.Typer):
    def command(self, *names: Any, **more: Any) -> Callable[[C], C]:
        return super().command(*names, **{"cls": OneValueCommand, **more})


def make_app(help_text: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Return a Typer app for a part of the command line.

    Markup and rich tracebacks are off: text of users is shown as they wrote it.
    """
    return _App(
        cls=cls,
        help=help_text,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


Headers = Mapping[bytes, bytes]

Fetch = Callable[[str, Mapping[str, str], float], bytes]
"""Returns what is at a URL: asked with these headers, within so many seconds."""

Connect = Callable[[str, Headers], "httpx.Client"]
"""Makes an HTTP client from a base URL and the headers of all requests; does not connect."""

_ANSWERED, _CONNECTED = 60, 5
"""Seconds; an answer may take long, because counting a million messages takes several."""

_LOOPBACK = ("localhost", "127.", "::1")


def connect(base_url: str, headers: Headers) -> "httpx.Client":
    """Make a client; a proxy named by the environment is not used for loopback addresses.

    Certificates are checked against the machine's own authorities, and those of SSL_CERT_FILE. Raises
    ConfigurationError.
    """
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise _no_url(base_url) from error
    return httpx.Client(
        base_url=base_url,
        headers=dict(headers),
        timeout=httpx.Timeout(_ANSWERED, connect=_CONNECTED),
        trust_env=not url.host.startswith(_LOOPBACK),
        verify=ssl.create_default_context() if url.scheme == "https" else True,
    )


def pause(seconds: float) -> None:
    """Wait; Ctrl-C ends it."""
    Event().wait(seconds)


def confirm(question: str) -> bool | None:
    """Ask the person in front of it; None where there is nobody to be asked."""
    return typer.confirm(question, err=True) if sys.stdin.isatty() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Network, time and output of a command, which tests replace."""

    connect: Connect = connect
    fetch: Fetch = fetch
    pause: Callable[[float], None] = pause
    confirm: Callable[[str], bool | None] = confirm
    edit: Callable[[str], str | None] = editor.edit
    clock: Clock = field(default_factory=SystemClock)
    printer: Printer = field(default_factory=Printer)


def tools_of(ctx: typer.Context) -> Tools:
    """Return the tools with which the command line was started."""
    return ctx.ensure_object(Tools)


def printer_of(ctx: typer.Context, *, as_json: bool) -> Printer:
    """Return the printer with which the command line was started, for documents or for words."""
    tools = tools_of(ctx)
    year = tools.clock.now().year
    return Printer(tools.printer.out, tools.printer.err, as_json=as_json, year=year)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: dataclasses become options, errors become exit codes."""
    return with_exit_code(spread(function))


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with every dataclass among its parameters spread into its fields.

    Typer reads the signature: each field becomes an option, an argument or a flag of its own.
    """
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(function)
    def call(**given: Any) -> None:
        for name, group in groups.items():
            members = {each.name: given.pop(each.name) for each in fields(group)}
            given[name] = group(**members)  # type: ignore[operator] # a class, not an instance
        function(**given)

    parameters = [
        single
        for parameter in signature(function).parameters.values()
        for single in _singles(parameter, hints)
    ]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # read by inspect
    call.__annotations__ = {single.name: single.annotation for single in parameters}
    return call


def _singles(parameter: Parameter, hints: dict[str, Any]) -> list[Parameter]:
    hint = hints[parameter.name]
    if not is_dataclass(hint):
        return [parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)]
    members = get_type_hints(hint, include_extras=True)
    return [_single(each, members[each.name]) for each in fields(hint)]


def _single(field: Field[Any], hint: Any) -> Parameter:
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


_MOST_NAMED = 10
"""Ids that the error about an ambiguous one lists at most."""

Search = Callable[[str], Sequence[OnlyId]]
"""Returns the items whose id begins with a text."""


def find_message_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a failed message: by its beginning, or by the sender's message id.

    A whole id is not looked up. Raises RequestRefused if not exactly one fits.
    """
    return canonical(text) if is_guid(text) else find_one_message(api, text)


def find_one_message(api: ApiClient, text: str) -> str:
    """Do the same, and look up a whole id, too: senders use such ids for their messages.

    Raises RequestRefused if not exactly one fits.
    """
    return _one_of(api, text, _whole(api, [text])) or _refuse(api, text)


def find_messages(api: ApiClient, texts: Sequence[str]) -> Sequence[str]:
    """Return the whole ids of several messages, each once, in the order in which they are named.

    A whole id that nobody knows is kept: the service skips it, and says so. Raises RequestRefused
    if another text fits none, or one fits several.
    """
    whole = _whole(api, texts)
    found = (
        _one_of(api, text, whole) or (canonical(text) if is_guid(text) else _refuse(api, text))
        for text in texts
    )
    return tuple(dict.fromkeys(found))


def _refuse(api: ApiClient, text: str) -> NoReturn:
    _refuse_import(api, text)
    raise RequestRefused(
        f"No failed message has the message id {text}, or an id that begins with it."
    )


def _whole(api: ApiClient, texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the ids of the messages that have these texts as their whole id or message id."""
    if not all(texts):
        # As a filter it would be no condition, and find everything.
        raise typer.BadParameter("the id is empty.")
    return api.look(dict[str, list[str]], ("errors", "ids"), list(texts))


def _one_of(api: ApiClient, text: str, known: Mapping[str, Sequence[str]]) -> str | None:
    """Return the one message that a text names; None if there is none.

    Both kinds count: eight digits may be a message id, and the beginning of another message's id.
    Raises RequestRefused if there are several.
    """
    whole = [str(each) for each in known.get(text, ())]
    begun = _beginning(api, canonical(text), "errors") if is_short(text) else ()
    match sorted({*whole, *(str(each["id"]) for each in begun)}):
        case []:
            return None
        case [one]:
            return one
        case found if not whole:
            raise RequestRefused(_ambiguous(text, "failed message", found))
        case found:
            several = counted(len(found), "failed message")
            raise RequestRefused(
                f"{several} have the message id {text}, or an id that begins with it; give the "
                f"whole id of the one you mean:\n{_name(found)}"
            )


_MOST_LOOKED_UP = 5
"""Skipped ids of one request that are looked up among the failed imports."""


def note_imports_among(printer: Printer, api: ApiClient, accepted: AskedRetry) -> None:
    """Remark which of the first skipped ids are those of failed imports, which no retry can take."""
    skipped = [str(each["id"]) for each in accepted.get("skipped_messages", ())]
    for each in [text for text in skipped if is_guid(text)][:_MOST_LOOKED_UP]:
        if _beginning(api, canonical(each), "imports"):
            printer.note(f"{each} is a failed import: see `retrier imports show {each}`.")


def find_operation_id(api: ApiClient, text: str) -> str:
    """Return the whole id of an operation. Raises RequestRefused if not exactly one fits."""
    return _find(text, "operation", lambda prefix: _beginning(api, prefix, "operations"))


def find_archive_id(api: ApiClient, text: str) -> str:
    """Return the id of the archive operation. Raises RequestRefused if not exactly one fits."""
    noun = "archive operation"
    return _find(text, noun, lambda prefix: _beginning(api, prefix, "archive_operations"))


def find_import_id(api: ApiClient, text: str) -> str:
    """Return the id of the failed import. Raises RequestRefused unless there is exactly one."""
    return _find(text, "failed import", lambda prefix: _imports_beginning(api, prefix))


def find_batch_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a batch alive. Raises RequestRefused if not exactly one fits."""
    return _find(
        text,
        "batch alive",
        lambda prefix: [
            each for each in api.page(OnlyId, "batches").items if str(each["id"]).startswith(prefix)
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
    several = counted(len(found), "id")
    return (
        f"{several} of a {noun} begin with {text}; give more of the one you mean:\n{_name(found)}"
    )


def _name(found: Sequence[str]) -> str:
    return "\n".join(f"  {each}" for each in sorted(found)[:_MOST_NAMED])


def _beginning(api: ApiClient, prefix: str, *path: str) -> Sequence[OnlyId]:
    return api.page(OnlyId, *path, id_prefix=prefix).items


def _refuse_import(api: ApiClient, text: str) -> None:
    """Raise RequestRefused if it is the id of a failed import, or its beginning."""
    if ids_beginning(text) is not None and _beginning(api, canonical(text), "imports"):
        shown = f"`retrier imports show {text}`"
        raise RequestRefused(f"{text} is a failed import and no failed message: see {shown}.")


def _imports_beginning(api: ApiClient, prefix: str) -> Sequence[OnlyId]:
    found = _beginning(api, prefix, "imports")
    # None is left: the answer about one says what became of it, where that is known.
    return found or [api.find(OnlyId, "imports", prefix)]


def _groups_beginning(api: ApiClient, prefix: str) -> Sequence[OnlyId]:
    groups = ("recoverability", "groups")
    # Groups are listed by classifier; only the service knows the names of all classifiers.
    return [
        each
        for name in api.texts("recoverability", "classifiers")
        for each in api.page(OnlyId, *groups, name, id_prefix=prefix).items
    ]


DEFAULT_URL = "http://127.0.0.1:33333"
TOKEN = "RETRIER_TOKEN"  # noqa: S105 - the name of the variable, not a token

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


_AT_ONCE = 0.3
"""Seconds that a person who has pressed the tabulator waits for the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledService:
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
            help=f"The file that holds the token. Without it: {TOKEN}, or that of `retrier login`.",
        ),
    ] = None
    as_json: AsJson = False

    def printer(self, ctx: typer.Context) -> Printer:
        """Return the printer of the command, which shows documents or words as is asked for."""
        return printer_of(ctx, as_json=self.as_json)

    @property
    def base(self) -> str:
        """Where the service is. Raises ConfigurationError."""
        return _check_url(self.url)

    @contextmanager
    def open(self, ctx: typer.Context, *, as_nobody: bool = False) -> Iterator[ApiClient]:
        """Yield a client of the service.

        Raises ConfigurationError, and RequestRefused if a log-in has run out.
        """
        base, tools = self.base, tools_of(ctx)
        headers = user_agent() if as_nobody else self._headers(tools, base)
        with tools.connect(base, headers) as http:
            yield ApiClient(http, redact(base))

    def find_at_once(self, ctx: typer.Context, path: Sequence[str]) -> list[dict[str, object]]:
        """Return the first page of a list, for somebody who has pressed the tabulator.

        Raises ServiceUnavailable if it takes longer, and what `open` raises.
        """
        base, tools = self.base, tools_of(ctx)
        headers = {
            name.decode(): text.decode() for name, text in self._headers(tools, base).items()
        }
        try:
            found = json.loads(tools.fetch(base + address_of(path), headers, _AT_ONCE))
        except ValueError as error:
            raise ServiceUnavailable(str(error)) from error
        return found if isinstance(found, list) else []

    def _headers(self, tools: Tools, base: str) -> dict[bytes, bytes]:
        token = self._find_token(tools, base)
        return {**user_agent(), **({b"Authorization": f"Bearer {token}".encode()} if token else {})}

    def _find_token(self, tools: Tools, base: str) -> str:
        given = _read_token(self.token_file)
        return given if given or self.token_file else _find_login(tools, base)


_PLAIN = re.compile(r"[\w][\w.@/+-]*")
_OTHERS = re.compile(r"[^\w .,()/-]+")
_LONGEST_REMARK = 60

Complete = Callable[[typer.Context, str], list[tuple[str, str]]]
"""Returns the words that may take the place of one that is begun, each with a remark."""


def offer(*path: str, key: str = "id", remark: str = "") -> Complete:
    """Return what offers the items of a list of the service; nothing where that is not at hand.

    Shells read again what they are given: of what came with a message, only what none of them could
    take for a command is offered.
    """

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        told = ctx.params
        service = CalledService(
            url=told.get("url") or DEFAULT_URL, token_file=told.get("token_file")
        )
        try:
            items = service.find_at_once(ctx, path)
        except RetrierError:
            return []
        found = (
            (_offered(str(each[key]), incomplete), str(each.get(remark, ""))) for each in items
        )
        return [
            (word, _OTHERS.sub(" ", text)[:_LONGEST_REMARK])
            for word, text in found
            if word.startswith(incomplete) and _PLAIN.fullmatch(word)
        ]

    return complete


def _offered(value: str, incomplete: str) -> str:
    """Return the short id of a whole one, as lists show it, unless more of it is typed already."""
    return short_id(value) if is_guid(value) and len(incomplete) <= SHORT_ID else value


def offer_words(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what offers these words."""
    known = tuple(words)
    return lambda incomplete: [each for each in known if each.startswith(incomplete)]


offer_queues = offer("errors", "queues", "addresses", key="physical_address")
offer_groups = offer("recoverability", "groups", remark="title")
offer_messages = offer("errors", remark="message_type")
offer_operations = offer("operations", remark="originator")
offer_archives = offer("archive_operations", remark="originator")
offer_imports = offer("imports", remark="reason")


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

    def fetch(self, api: ApiClient, shape: type[T], *path: str, **params: str | int) -> Listing[T]:
        """Return that part of a list; by default its first 50 items."""
        limit = self._limit()
        if limit is not None:
            return api.first(limit, shape, *path, **params)
        return api.page(shape, *path, **params, page=self.page or 1, per_page=self.per_page or 50)

    def _limit(self) -> int | None:
        if self.limit is not None and (self.page or self.per_page):
            raise typer.BadParameter("--limit goes with neither --page nor --per-page.")
        return self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedPages(Pages):
    """The same of a list that is followed with --limit, and printed as it comes."""

    ndjson: Annotated[
        bool, typer.Option("--ndjson", help="Print each item as one line of JSON.")
    ] = False

    def walk(
        self, api: ApiClient, shape: type[T], *path: str, **params: str | int
    ) -> Iterator[Listing[T]]:
        """Return the pages of that part: none is missed while others leave the list."""
        limit = self._limit()
        if limit is not None:
            return api.follow(limit, shape, *path, **params)
        return iter([self.fetch(api, shape, *path, **params)])

    def ids(self, api: ApiClient, *path: str, **params: str | int) -> Iterator[str]:
        """Yield the ids in it; of a list that has a page with nothing but ids, by that."""
        self.refuse_ndjson()
        if self.limit is not None:
            for page in self.walk(api, str, *path, "ids", **params):
                yield from page.items
            return
        for each in self.fetch(api, OnlyId, *path, **params).items:
            yield each["id"]

    def show(
        self,
        printer: Printer,
        found: Iterator[Listing[T]],
        for_people: Callable[[Printer, Sequence[T]], object],
        noun: str,
        nothing: str,
    ) -> None:
        """Print them as they come. Raises BadParameter if two forms are asked for."""
        if not self.ndjson:
            printer.show_parts(found, for_people, noun, nothing)
            return
        if printer.as_json:
            self.refuse_ndjson()
        for page in found:
            printer.records(page.items)

    def refuse_ndjson(self) -> None:
        """Raise BadParameter if it is asked for, beside another form."""
        if self.ndjson:
            raise typer.BadParameter("--ndjson goes with neither --json nor --ids.")


def _check_url(url: str) -> str:
    """Return the base URL without a final slash or /api, which people add."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise _no_url(url)
    return url.rstrip("/").removesuffix("/api")


def _no_url(url: str) -> ConfigurationError:
    shown = redact(url)
    return ConfigurationError([f"--url or RETRIER_URL: {shown} is no http:// or https:// URL"])


def user_agent() -> dict[bytes, bytes]:
    """Return the header that says who calls."""
    return {b"User-Agent": f"retrier/{__version__}".encode()}


def _find_login(tools: Tools, base: str) -> str:
    """Return the token that `retrier login` has kept for a service; a new one if it has run out."""
    logins = logins_of_this_person()
    login = logins.find(base)
    if login is None:
        return ""
    if is_due(login, tools.clock):
        with tools.connect(login.token_endpoint, user_agent()) as http:
            login = renew(http, login, tools.clock)
        logins.keep(base, login)
    return login.token


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
    total = api.page(OnlyId, "imports", per_page=1).total
    if total:
        printer.note(f"{counted(total, 'message')} could not be read: `retrier imports list`")
