"""The environment: RETRIER_<SECTION>__<KEY> as overrides of the settings file."""

import json
from collections.abc import Mapping

from pydantic import BaseModel

_PREFIX = "RETRIER_"
_DELIMITER = "__"

Path = tuple[str, ...]

_LISTS: frozenset[Path] = frozenset(
    {("broker", "url"), ("ingestion", "error_queues"), ("api", "allowed_hosts")}
)


def read_environment(environ: Mapping[str, str], model: type[BaseModel]) -> dict[Path, str]:
    """Map the path of each setting that the environment gives to the name of its variable.

    Only names that begin with a field of the model count, so RETRIER_URL and RETRIER_TOKEN do
    not, nor do names with a single underscore such as RETRIER_API_PORT: container platforms set
    those for a service of that name.
    """
    paths = {_path(name): name for name in environ if name.startswith(_PREFIX)}
    return {path: name for path, name in paths.items() if path[0] in model.model_fields}


def override(tree: dict[str, object], path: Path, text: str) -> None:
    """Put one value into the tree; a section that is no mapping stays, to be reported."""
    value = _read_list(text) if path in _LISTS else text
    *sections, key = path
    for section in sections:
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[key] = value


def _path(name: str) -> Path:
    return tuple(name.removeprefix(_PREFIX).lower().split(_DELIMITER, 1))


def _read_list(text: str) -> object:
    if not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return json.loads(text)
    except ValueError:
        return text
