"""What all commands share: options as dataclasses, exit codes, and the tools they work with."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import IntEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from threading import Event
from typing import Any, ParamSpec, TypeVar, get_type_hints

import httpx
import typer
from typer.core import TyperCommand

from retrier.cli.printer import Printer, harmless
from retrier.clock import Clock, SystemClock
from retrier.errors import (
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    RetrierError,
    ServiceUnavailable,
)

P = ParamSpec("P")
C = TypeVar("C", bound=Callable[..., Any])


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
        except RetrierError as error:
            typer.echo(harmless(str(error)), err=True)
            raise typer.Exit(_exit_code(error)) from None

    return run_command


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


def make_app(help_text: str) -> typer.Typer:
    """Return a Typer app for a part of the command line.

    Markup and rich tracebacks are off: text of users is shown as they wrote it.
    """
    return _App(
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


Headers = Mapping[bytes, bytes]

Connect = Callable[[str, Headers], httpx.Client]
"""Makes an HTTP client from a base URL and the headers of all requests; does not connect."""

_TIMEOUT = httpx.Timeout(60, connect=5)
"""Seconds; an answer may take long, because counting a million messages takes several."""

_LOOPBACK = ("localhost", "127.", "::1")


def connect(base_url: str, headers: Headers) -> httpx.Client:
    """Make a client; a proxy named by the environment is not used for loopback addresses."""
    is_local = httpx.URL(base_url).host.startswith(_LOOPBACK)
    return httpx.Client(
        base_url=base_url, headers=dict(headers), timeout=_TIMEOUT, trust_env=not is_local
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
    pause: Callable[[float], None] = pause
    confirm: Callable[[str], bool | None] = confirm
    clock: Clock = field(default_factory=SystemClock)
    printer: Printer = field(default_factory=Printer)


def tools_of(ctx: typer.Context) -> Tools:
    """Return the tools with which the command line was started."""
    return ctx.ensure_object(Tools)


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
