"""What a person should know about settings that are not wrong: defaults, and mistyped variables."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from retrier.settings.loading import find_used_knobs
from retrier.settings.model import Settings

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
