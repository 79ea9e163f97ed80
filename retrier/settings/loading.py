"""Settings from a file and the environment, with everything that is wrong in one answer."""

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from retrier.errors import ConfigurationError
from retrier.settings.addresses import redact
from retrier.settings.fields import KeyPath
from retrier.settings.model import Settings
from retrier.settings.problems import describe, word
from retrier.settings.queues import find_clashes


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

    Only names that begin with a field of the model count, so RETRIER_URL and RETRIER_TOKEN do
    not, nor do names with a single underscore such as RETRIER_API_PORT: container platforms set
    those for a service of that name.
    """
    paths = {_path(name): name for name in environ if name.startswith(_PREFIX)}
    return {path: name for path, name in paths.items() if path[0] in model.model_fields}


def override(tree: dict[str, object], path: KeyPath, text: str) -> None:
    """Put one value into the tree; a section that is no mapping stays, to be reported."""
    value = _read_list(text) if path in _LISTS else text
    *sections, key = path
    for section in sections:
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[key] = value


def _path(name: str) -> KeyPath:
    return tuple(name.removeprefix(_PREFIX).lower().split(_DELIMITER, 1))


def _read_list(text: str) -> object:
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def read_file(path: Path) -> tuple[dict[str, object], list[str]]:
    """Return the file's tree and what is wrong with it; a broken file is an empty tree."""
    try:
        tree = _parse(path.read_bytes())
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror}"]
    except (yaml.YAMLError, ValueError) as error:
        return {}, [f"{path}: cannot be understood: {_explain(error)}"]
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
    """Reads every key as text, and refuses one given twice: YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"the key {redact(key.value)} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}


def _explain(error: Exception) -> str:
    # Only the place and the problem: the line itself, which PyYAML quotes, may hold a password.
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return "it holds what cannot be read as text or as a value"
