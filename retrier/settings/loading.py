"""From a file and an environment to settings, or to the list of all that is wrong with them."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from retrier.errors import ConfigurationError
from retrier.settings.environment import override, read_environment
from retrier.settings.file import read_file
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
