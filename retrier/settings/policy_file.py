"""Reads the section `policies` alone, as it is done again and again while the service runs."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from retrier.errors import ConfigurationError
from retrier.settings.fields import Section
from retrier.settings.knobs import apply_policy_knobs
from retrier.settings.loading import describe, override, read_environment, read_file, word
from retrier.settings.model import Settings
from retrier.settings.policies import PoliciesSection
from retrier.settings.policy_clashes import find_policy_clashes


class _Policies(Section):
    """The settings without all other sections."""

    policies: PoliciesSection | None = None


def load_policies(
    path: Path, environ: Mapping[str, str], own_queues: frozenset[str]
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


def check_policies(content: object, own_queues: frozenset[str]) -> PoliciesSection:
    """Check what would be the content of the section. Raises ConfigurationError."""
    return _check({} if content is None else content, own_queues, {}) or PoliciesSection()


def name_settings_queues(settings: Settings) -> frozenset[str]:
    """Return the queues that Retrier itself empties, by checked settings."""
    queues = (each.queue for each in settings.ingestion.error_queues)
    return frozenset({*queues, settings.staging_queue})


def _check(
    content: object, own_queues: frozenset[str], variables: Mapping[tuple[str, ...], str]
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
