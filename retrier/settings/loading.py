"""Reads settings from a file and the environment; reports all problems at once, a line each."""

import json
from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from retrier.errors import ConfigurationError
from retrier.settings.addresses import redact
from retrier.settings.breakers import BreakerSettings
from retrier.settings.fields import KeyPath
from retrier.settings.knobs import apply_knobs
from retrier.settings.model import ErrorQueue, Place, Settings, find_clashes, name_own_queues
from retrier.settings.policies import list_policy_fields
from retrier.settings.policy_clashes import find_policy_clashes
from retrier.settings.tls import BrokerTls
from retrier.settings.yaml_text import explain_syntax, parse_yaml

_WHOLE_NUMBER = "must be a whole number"
_MUST = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
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
        case {"type": "literal_error" | "enum", "ctx": {"expected": expected}}:
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
        case ("breakers",):
            return list(BreakerSettings.model_fields)
        case ("policies", *rest):
            return list_policy_fields(rest)
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
    tree, problems, variables = _read_tree(path, environ)
    used = apply_knobs(tree, environ)
    problems += used.problems
    variables = {**used.variables, **variables}
    instance = tree.get("instance", Settings().instance)
    own_queues = name_own_queues(tree, instance)
    clashes = [*find_clashes(tree, instance), *find_policy_clashes(tree, own_queues)]
    problems += [word(*clash, variables) for clash in clashes]
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        problems += [describe(each, variables) for each in error.errors()]
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return settings


def name_database(settings: Settings, url: str, option: str) -> Settings:
    """Return the settings with another database, which this option names.

    Raises ConfigurationError.
    """
    try:
        database = settings.database.model_validate({"url": url})
    except ValidationError as error:
        raise ConfigurationError(
            [f"{option}: {_explain({**each, 'loc': ('url',)})}" for each in error.errors()]
        ) from None
    return settings.model_copy(update={"database": database})


def find_used_knobs(path: Path | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the names of other systems that are used, by the key that each stands for."""
    tree, _, _ = _read_tree(path, environ)
    return apply_knobs(tree, environ).names


def _read_tree(
    path: Path | None, environ: Mapping[str, str]
) -> tuple[dict[str, object], list[str], dict[KeyPath, str]]:
    """Return what file and environment say by our own names; problems; and the variables."""
    tree, problems = read_file(path) if path else ({}, [])
    variables = read_environment(environ, Settings)
    for place, name in variables.items():
        override(tree, place, environ[name])
    return tree, problems, variables


_PREFIX = "RETRIER_"
_DELIMITER = "__"

_LISTS: frozenset[KeyPath] = frozenset(
    {
        ("broker", "url"),
        ("ingestion", "error_queues"),
        ("ingestion", "volatile_headers"),
        ("api", "allowed_hosts"),
    }
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
    value = _read_value(path, text)
    *sections, key = path
    for section in sections:
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[key] = value


def _path(name: str) -> KeyPath:
    return tuple(name.removeprefix(_PREFIX).lower().split(_DELIMITER))


def _read_value(path: KeyPath, text: str) -> object:
    if path in _LISTS:
        return _read_list(text)
    return _read_policies(text) if path == ("policies",) else text


def _read_policies(text: str) -> object:
    """Read a section that is too deep for one variable for each key: JSON, or an empty text."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


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
        tree = parse_yaml(path.read_bytes())
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror}"]
    except (yaml.YAMLError, ValueError) as error:
        return {}, [f"{path}: cannot be understood: {explain_syntax(error)}"]
    if not isinstance(tree, dict):
        return {}, [f"{path}: must hold sections such as broker and database"]
    return {key: value for key, value in tree.items() if value is not None}, []
