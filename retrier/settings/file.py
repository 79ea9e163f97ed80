"""The settings file: YAML read without surprises."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from retrier.settings.addresses import redact


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
