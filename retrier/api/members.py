"""The members that a body may have, however deep: to name the one that a misspelled one is near to."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel


def members_at(body: Any, within: Sequence[str]) -> frozenset[str]:
    """Return the names of the members of the object to which these members of a body lead."""
    models = list(_models_in(body))
    for name in within:
        inner = [each for model in models for each in _annotations(model, name)]
        models = [model for each in inner for model in _models_in(each)]
    return frozenset(
        each.alias or name for model in models for name, each in model.model_fields.items()
    )


def _annotations(model: type[BaseModel], name: str) -> Iterator[Any]:
    for attribute, each in model.model_fields.items():
        if name == (each.alias or attribute):
            yield each.annotation


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, such as those of `Body | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_in(each)
