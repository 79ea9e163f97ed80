"""What a wrong setting is called: one readable line per problem, without secrets."""

from collections.abc import Mapping

from pydantic_core import ErrorDetails

from retrier.settings.addresses import redact
from retrier.settings.fields import KeyPath
from retrier.settings.model import Settings
from retrier.settings.queues import ErrorQueue, Place

_WHOLE_NUMBER = "must be a whole number"
_MUST = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_from_float": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "int_parsing_size": _WHOLE_NUMBER,
    "int_type": _WHOLE_NUMBER,
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
_LONGEST_SHOWN = 60


def describe(error: ErrorDetails, variables: Mapping[KeyPath, str]) -> str:
    """Say in one line where and what is wrong; `variables` as for `word`."""
    return word(error["loc"], _explain(error), variables)


def word(place: Place, text: str, variables: Mapping[KeyPath, str]) -> str:
    """Say in one line that `text` holds at `place`, and which variable it came from, if one."""
    keys = tuple(str(part) for part in place)
    variable = variables.get(keys[:2]) or variables.get(keys[:1])
    origin = f" (from {variable})" if variable else ""
    return f"{redact(_show_place(place))}: {text}{origin}"


def _show_place(place: Place) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


def _explain(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return f"is not a setting; known here: {', '.join(_fields_at(error['loc'][:-1]))}"
        case "missing":
            return "must be given"
        case "model_type" | "model_attributes_type":
            return f"must hold keys of its own: {', '.join(_fields_at(error['loc']))}"
        case _:
            return _expect(error) + _show_value(error)


def _expect(error: ErrorDetails) -> str:
    match error:
        case {"type": "value_error", "ctx": {"error": reason}}:
            return str(reason)
        case {"type": "literal_error", "ctx": {"expected": expected}}:
            return f"must be {expected}".replace("'", "")
        case _:
            return _MUST.get(error["type"], error["msg"])


def _show_value(error: ErrorDetails) -> str:
    if "url" in error["loc"]:
        return ""
    match error["input"]:
        case None:
            return ", has no value"
        case bool() as truth:
            return f", is {str(truth).lower()}"
        case list():
            return ", is a list"
        case dict():
            return ", is a mapping"
        case value:
            return f", is {_show_text(str(value))}"


def _show_text(text: str) -> str:
    text = redact(text)
    text = text if text.isprintable() and text.strip() else repr(text)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _fields_at(place: Place) -> list[str]:
    match place:
        case ():
            return list(Settings.model_fields)
        case (str(section),):
            return list(type(getattr(Settings(), section)).model_fields)
        case _:
            return list(ErrorQueue.model_fields)
