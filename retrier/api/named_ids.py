"""The ids that a request names in its body: a list of texts."""

from typing import Annotated, Any

from fastapi import Body, Depends, HTTPException

from retrier.domain.text import clean

MOST_IDS = 100_000
"""Ids one request may name; bulk routes and further requests take more."""

_LONGEST_ID = 1000


def checked(ids: list[Any]) -> tuple[str, ...]:
    """Return the ids if each is one. Raises HTTPException."""
    if not all(_is_id(each) for each in ids):
        raise HTTPException(400, "Every id is a text that is not empty.")
    return tuple(ids)


def _named(ids: Annotated[list[Any], Body(max_length=MOST_IDS)]) -> tuple[str, ...]:
    return checked(ids)


NamedIds = Annotated[tuple[str, ...], Depends(_named)]


def _is_id(each: object) -> bool:
    return isinstance(each, str) and each != "" and clean(each, _LONGEST_ID) == each
