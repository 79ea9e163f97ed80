"""Reads settings from YAML and the environment; reports all problems at once, a line each."""

import json
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from retrier.domain.text import redact
from retrier.errors import ConfigurationError
from retrier.settings.access import list_access_fields
from retrier.settings.dialects import DialectSection, find_dialect_clashes, list_dialect_fields
from retrier.settings.environment import apply_knobs, apply_policy_knobs
from retrier.settings.fields import KeyPath, Section
from retrier.settings.model import (
    ApiTls,
    BrokerTls,
    ErrorQueue,
    SettingPath,
    Settings,
    find_clashes,
    name_own_queues,
)
from retrier.settings.policies import (
    BreakerSettings,
    PoliciesSection,
    find_policy_clashes,
    list_policy_fields,
)
from retrier.settings.search import FIELD_KEYS
from retrier.transport.queue_names import OwnQueues

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


def word(place: SettingPath, text: str, variables: Mapping[KeyPath, str]) -> str:
    """Return one line: `place`, the problem `text`, and the environment variable, if one set it."""
    keys = tuple(str(part) for part in place)
    variable = next((found for end in (3, 2, 1) if (found := variables.get(keys[:end]))), None)
    origin = f" (from {variable})" if variable else ""
    return f"{redact(_show_place(place))}: {text}{origin}"


def _show_place(place: SettingPath) -> str:
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


_SECRETS: frozenset[int | str] = frozenset({"url", "sha256", "client_secret"})
"""Keys whose values are not shown: a token may stand there by mistake."""


def _show_value(error: ErrorDetails) -> str:
    if not _SECRETS.isdisjoint(error["loc"]):
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


def _fields_at(place: SettingPath) -> list[str]:
    match place:
        case ():
            return list(Settings.model_fields)
        case ("breakers",):
            return list(BreakerSettings.model_fields)
        case ("ingestion", "dialects", *rest):
            return list_dialect_fields(rest)
        case ("search", "fields", *_):
            return list(FIELD_KEYS)
        case (("access" | "policies") as part, *rest):
            return list_access_fields(rest) if part == "access" else list_policy_fields(rest)
        case (str(section),):
            return list(type(getattr(Settings(), section)).model_fields)
        case (("broker" | "api") as part, "tls"):
            return list((BrokerTls if part == "broker" else ApiTls).model_fields)
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
        ("ingestion", "dialects"),
        ("ingestion", "volatile_headers"),
        ("ingestion", "generated_names"),
        ("search", "fields"),
        ("api", "allowed_hosts"),
        ("api", "allowed_origins"),
        ("api", "trusted_proxies"),
        ("access", "tokens"),
    }
)


_DEEP = (("policies",), ("access",), ("broker", "transport_options"))
"""What is too deep, or too free, for one variable for each key."""


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
    return _read_policies(text) if path in _DEEP else text


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


class _Policies(Section):
    """The settings without all other sections."""

    policies: PoliciesSection | None = None


def load_policies(
    path: Path, environ: Mapping[str, str], own_queues: Container[str]
) -> PoliciesSection | None:
    """Read the section of the file and the environment; None if there is none.

    What is wrong in another section does not matter: that one was read at the start. Raises
    ConfigurationError with every problem, one line each.
    """
    tree, problems = read_file(path)
    variables = read_environment(environ, _Policies)
    for place, name in variables.items():
        override(tree, place, environ[name])
    problems += apply_policy_knobs(tree, environ).problems
    if problems:
        raise ConfigurationError(problems)
    return _check(tree.get("policies"), own_queues, variables)


def check_policies(content: object, own_queues: Container[str]) -> PoliciesSection:
    """Check what would be the content of the section. Raises ConfigurationError."""
    return _check({} if content is None else content, own_queues, {}) or PoliciesSection()


def check_dialects(content: object) -> tuple[DialectSection, ...]:
    """Check what would be `ingestion.dialects`. Raises ConfigurationError."""
    tree = {"ingestion": {"dialects": content}}
    problems = [word(*clash, {}) for clash in find_dialect_clashes(tree)]
    try:
        found = Settings.model_validate(tree).ingestion.dialects
    except ValidationError as error:
        problems += [describe(each, {}) for each in error.errors()]
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return found


def name_settings_queues(settings: Settings) -> OwnQueues:
    """Return the queues that Retrier itself empties, by checked settings."""
    queues = (each.queue for each in settings.ingestion.error_queues)
    return OwnQueues((*queues, settings.staging_queue), settings.broker.alike)


def _check(
    content: object, own_queues: Container[str], variables: Mapping[tuple[str, ...], str]
) -> PoliciesSection | None:
    tree = {"policies": content}
    problems = [word(*clash, variables) for clash in find_policy_clashes(tree, own_queues)]
    try:
        section = _Policies.model_validate(tree).policies
    except ValidationError as error:
        problems += [describe(each, variables) for each in error.errors()]
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return section


_FROM_A_PLATFORM = "tcp://"
"""Container platforms set RETRIER_API_PORT=tcp://... for a service that is called `retrier-api`."""


def find_remarks(settings: Settings, config: Path | None, environ: Mapping[str, str]) -> list[str]:
    """Return sentences for standard error: which embedded defaults are used, and where they are.

    The variables of a service are often in a file of its own, and not in the shell of a person:
    without a remark a command would look at an empty database and say that all is well.
    """
    knobs = find_used_knobs(config, environ)
    return [
        *_find_mistyped(environ),
        *(f"{name} is used for {key}" for name, key in knobs.items()),
        *_find_defaults(settings, config),
    ]


def is_database_named(settings: Settings) -> bool:
    """Say whether file or environment name the database."""
    return "url" in settings.database.model_fields_set


def _find_defaults(settings: Settings, config: Path | None) -> Iterator[str]:
    if not is_database_named(settings):
        yield _word_default("database", settings.database.url, config)
    # Without a file nothing is meant to be named; but where messages are kept a person has to know.
    if config is not None and "url" not in settings.broker.model_fields_set:
        yield _word_default("broker", settings.broker.url[0], config)


def _word_default(part: str, url: str, config: Path | None) -> str:
    path = Path(url.partition(":///")[2]).absolute()
    places = f"{config} nor the environment has" if config else "--config nor the environment names"
    return (
        f"{part}: the default, the embedded file {path}: neither {places} "
        f"{part}.url (RETRIER_{part.upper()}__URL)"
    )


def _find_mistyped(environ: Mapping[str, str]) -> Iterator[str]:
    for section, field in Settings.model_fields.items():
        keys = getattr(field.annotation, "model_fields", ())
        for key in keys:
            meant = f"RETRIER_{section}__{key}".upper()
            given = meant.replace("__", "_", 1)
            value = environ.get(given)
            if value is None or meant in environ or value.startswith(_FROM_A_PLATFORM):
                continue
            yield f"{given} is not read: did you mean {meant}?"
