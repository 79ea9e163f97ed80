"""Reads settings from a file and the environment; reports all problems at once, a line each."""

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from retrier.errors import ConfigurationError
from retrier.settings.addresses import redact
from retrier.settings.fields import KeyPath
from retrier.settings.model import ErrorQueue, Place, Settings, find_clashes
from retrier.settings.tls import BrokerTls

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
    """Return a problem as one line: the place and what is wrong; `variables` as for `word`."""
    return word(error["loc"], _explain(error), variables)


def word(place: Place, text: str, variables: Mapping[KeyPath, str]) -> str:
    """Return one line: `place`, the problem `text`, and the environment variable, if one set it."""
    keys = tuple(str(part) for part in place)
    variable = next((found for end in (3, 2, 1) if (found := variables.get(keys[:end]))), None)
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
        case ("broker", "tls"):
            return list(BrokerTls.model_fields)
        case _:
            return list(ErrorQueue.model_fields)


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read the file, let the environment override it, check all of it.

    Raises ConfigurationError with every problem of both, one line each.
    """
    tree, problems = read_file(path) if path else ({}, [])
    variables = read_environment(environ, Settings)
    for place, name in variables.items():
        override(tree, place, environ[name])
    instance = tree.get("instance", Settings().instance)
    problems += [word(*clash, variables) for clash in find_clashes(tree, instance)]
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        problems += [describe(each, variables) for each in error.errors()]
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return settings


_PREFIX = "RETRIER_"
_DELIMITER = "__"

_LISTS: frozenset[KeyPath] = frozenset(
    {("broker", "url"), ("ingestion", "error_queues"), ("api", "allowed_hosts")}
)


def read_environment(environ: Mapping[str, str], model: type[BaseModel]) -> dict[KeyPath, str]:
    """Map the path of each setting that the environment gives to the name of its variable.

    Only names that begin with a field of the model count: RETRIER_URL and RETRIER_TOKEN do not.
    Names with a single underscore, such as RETRIER_API_PORT, do not count either: container
    platforms set them for a service that is called `retrier-api`.
    """
    paths = {_path(name): name for name in environ if name.startswith(_PREFIX)}
    return {path: name for path, name in paths.items() if path[0] in model.model_fields}


def override(tree: dict[str, object], path: KeyPath, text: str) -> None:
    """Put one value into the tree; a section that is no mapping stays: validation reports it."""
    value = _read_list(text) if path in _LISTS else text
    *sections, key = path
    for section in sections:
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[key] = value


def _path(name: str) -> KeyPath:
    return tuple(name.removeprefix(_PREFIX).lower().split(_DELIMITER))


def _read_list(text: str) -> object:
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_file(path: Path) -> tuple[dict[str, object], list[str]]:
    """Return the file's tree and its problems; a file that cannot be read is an empty tree."""
    try:
        tree = _parse(path.read_bytes())
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror}"]
    except (yaml.YAMLError, ValueError) as error:
        return {}, [f"{path}: cannot be understood: {_explain_syntax(error)}"]
    if not isinstance(tree, dict):
        return {}, [f"{path}: must hold sections such as broker and database"]
    return {key: value for key, value in tree.items() if value is not None}, []


def _parse(data: bytes) -> object:
    loader = _Loader(data)
    try:
        tree: object = loader.get_single_data()
    finally:
        loader.dispose()
    return {} if tree is None else tree


class _Loader(yaml.SafeLoader):
    """Reads every key as text, and refuses a key given twice: PyYAML would keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"the key {redact(key.value)} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}


def _explain_syntax(error: Exception) -> str:
    # Only place and problem: PyYAML's own message quotes the line, which may hold a password.
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return "it holds what cannot be read as text or as a value"
