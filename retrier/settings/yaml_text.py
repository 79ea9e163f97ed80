"""YAML: read with every key as text, and no key twice; and a section as it is written."""

from collections.abc import Hashable, Iterable
from typing import Any

import yaml

from retrier.errors import ConfigurationError
from retrier.settings.addresses import redact

DEEPEST = 50
"""Levels of a text that somebody sends; policies have six."""


def read_text(text: str) -> object:
    """Return the tree of a text that somebody sends. Raises ConfigurationError."""
    try:
        refuse_traps(yaml.parse(text, yaml.SafeLoader))
        return parse_yaml(text.encode())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError([f"the text: {explain_syntax(error)}"]) from None


def refuse_traps(events: Iterable[yaml.Event]) -> None:
    """Raise ConfigurationError at the first event that can cost far more than its length says.

    A few lines of aliases can stand for billions of values. PyYAML's time grows with the square of
    the depth: 64 KiB of opening brackets are minutes.
    """
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError(["the text: an alias (*name) is not read here"])
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ConfigurationError([f"the text: it has more than {DEEPEST} levels"])


def find_section(text: str, name: str) -> str:
    """Return a section of a file as it is written there; empty if there is none."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return text[key.start_mark.index : value.end_mark.index]
    return ""


def parse_yaml(data: bytes) -> object:
    """Return the tree of a file. Raises yaml.YAMLError and ValueError."""
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


def explain_syntax(error: Exception) -> str:
    """Return what is wrong with a text, without quoting it."""
    # Only place and problem: PyYAML's own message quotes the line, which may hold a password.
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return "it holds what cannot be read as text or as a value"
