"""Options that belong together: a command takes them as one dataclass, the shell as single ones."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from retrier.cli.endings import with_exit_code


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: its dataclasses are spread, its errors end with a code."""
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
