"""Short ids become whole ones: the service tells what begins so, and it must be one thing only."""

from collections.abc import Callable, Sequence

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.texts import counted
from retrier.domain.identity import canonical, is_guid
from retrier.domain.text import SHORTEST, ids_beginning
from retrier.errors import RequestRefused

_MOST_NAMED = 10
"""Candidates that an error names."""

Search = Callable[[str], Sequence[Json]]
"""Returns what has an id that begins so."""


def find_message_id(api: ApiClient, text: str) -> str:
    """Return the id of the failed message. Raises RequestRefused unless there is exactly one."""
    return _find(text, "failed message", lambda prefix: _beginning(api, prefix, "errors"))


def find_operation_id(api: ApiClient, text: str) -> str:
    """Return the id of the operation. Raises RequestRefused unless there is exactly one."""
    return _find(text, "operation", lambda prefix: _beginning(api, prefix, "operations"))


def find_batch_id(api: ApiClient, text: str) -> str:
    """Return the id of the batch alive. Raises RequestRefused unless there is exactly one."""
    return _find(
        text,
        "batch alive",
        lambda prefix: [
            each for each in api.page("batches").items if str(each["id"]).startswith(prefix)
        ],
    )


def find_group_id(api: ApiClient, text: str) -> str:
    """Return the id of the failure group, whatever its classifier. Raises RequestRefused."""
    return _find(text, "group", lambda prefix: _groups_beginning(api, prefix))


def is_short(text: str) -> bool:
    """Say whether text can only be the beginning of an id."""
    return ids_beginning(text) is not None and not is_guid(text)


def _find(text: str, noun: str, search: Search) -> str:
    if is_guid(text):
        return canonical(text)
    if ids_beginning(text) is None:
        raise typer.BadParameter(
            f"{text!r} is no id: an id is hexadecimal digits and dashes, or its first {SHORTEST} "
            "characters or more."
        )
    found = [str(each["id"]) for each in search(canonical(text))]
    match found:
        case []:
            raise RequestRefused(f"No {noun} has an id that begins with {text}.")
        case [one]:
            return one
        case _:
            raise RequestRefused(_ambiguous(text, noun, found))


def _ambiguous(text: str, noun: str, found: Sequence[str]) -> str:
    named = "\n".join(f"  {each}" for each in sorted(found)[:_MOST_NAMED])
    several = counted(len(found), "id")
    return f"{several} of a {noun} begin with {text}; give more of the one you mean:\n{named}"


def _beginning(api: ApiClient, prefix: str, *path: str) -> Sequence[Json]:
    return api.page(*path, id_prefix=prefix).items


def _groups_beginning(api: ApiClient, prefix: str) -> Sequence[Json]:
    groups = ("recoverability", "groups")
    # A classifier's name is text like any other: the service lists the names.
    return [
        each
        for name in api.texts("recoverability", "classifiers")
        for each in api.page(*groups, name, id_prefix=prefix).items
    ]
