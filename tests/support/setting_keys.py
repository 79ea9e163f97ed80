"""Every key of the settings, walked off the model."""

from collections.abc import Iterator

from pydantic import BaseModel

from retrier.settings import Settings


def walk_keys(model: BaseModel, prefix: str = "") -> Iterator[str]:
    """Name every key as it is written in problems and docs: `section.key`."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from walk_keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def variable_of(key: str) -> str:
    """Name the variable that overrides a key."""
    return "RETRIER_" + key.replace(".", "__").upper()


SETTING_KEYS = tuple(walk_keys(Settings()))
