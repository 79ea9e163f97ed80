"""Short ids become whole ones; exactly one thing may begin with them."""

from collections.abc import Callable, Sequence
from typing import NoReturn

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.printer import Printer, counted
from retrier.domain.identity import canonical, is_guid
from retrier.domain.text import SHORTEST, ids_beginning
from retrier.errors import RequestRefused

_MOST_NAMED = 10
"""Ids that the error about an ambiguous one lists at most."""

Search = Callable[[str], Sequence[Json]]
"""Returns the items whose id begins with a text."""


def find_message_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a failed message: by its beginning, or by the sender's message id.

    A whole id is not looked up. Raises RequestRefused if not exactly one fits.
    """
    return canonical(text) if is_guid(text) else find_one_message(api, text)


def find_one_message(api: ApiClient, text: str) -> str:
    """Do the same, and look up a whole id, too: senders use such ids for their messages.

    Raises RequestRefused if not exactly one fits.
    """
    return _one_of(api, text, _whole(api, [text])) or _refuse(api, text)


def find_messages(api: ApiClient, texts: Sequence[str]) -> Sequence[str]:
    """Return the whole ids of several messages, each once, in the order in which they are named.

    A whole id that nobody knows is kept: the service skips it, and says so. Raises RequestRefused
    if another text fits none, or one fits several.
    """
    whole = _whole(api, texts)
    found = (
        _one_of(api, text, whole) or (canonical(text) if is_guid(text) else _refuse(api, text))
        for text in texts
    )
    return tuple(dict.fromkeys(found))


def _refuse(api: ApiClient, text: str) -> NoReturn:
    _refuse_import(api, text)
    raise RequestRefused(
        f"No failed message has the message id {text}, or an id that begins with it."
    )


def _whole(api: ApiClient, texts: Sequence[str]) -> Json:
    """Return the ids of the messages that have these texts as their whole id or message id."""
    if not all(texts):
        # As a filter it would be no condition, and find everything.
        raise typer.BadParameter("the id is empty.")
    return api.look(("errors", "ids"), list(texts))


def _one_of(api: ApiClient, text: str, known: Json) -> str | None:
    """Return the one message that a text names; None if there is none.

    Both kinds count: eight digits may be a message id, and the beginning of another message's id.
    Raises RequestRefused if there are several.
    """
    whole = [str(each) for each in known.get(text, ())]
    begun = _beginning(api, canonical(text), "errors") if is_short(text) else ()
    match sorted({*whole, *(str(each["id"]) for each in begun)}):
        case []:
            return None
        case [one]:
            return one
        case found if not whole:
            raise RequestRefused(_ambiguous(text, "failed message", found))
        case found:
            several = counted(len(found), "failed message")
            raise RequestRefused(
                f"{several} have the message id {text}, or an id that begins with it; give the "
                f"whole id of the one you mean:\n{_name(found)}"
            )


_MOST_LOOKED_UP = 5
"""Skipped ids of one request that are looked up among the failed imports."""


def note_imports_among(printer: Printer, api: ApiClient, accepted: Json) -> None:
    """Remark which of the first skipped ids are those of failed imports, which no retry can take."""
    skipped = [str(each["id"]) for each in accepted.get("skipped_messages", ())]
    for each in [text for text in skipped if is_guid(text)][:_MOST_LOOKED_UP]:
        if _beginning(api, canonical(each), "imports"):
            printer.note(f"{each} is a failed import: see `retrier imports show {each}`.")


def find_operation_id(api: ApiClient, text: str) -> str:
    """Return the whole id of an operation. Raises RequestRefused if not exactly one fits."""
    return _find(text, "operation", lambda prefix: _beginning(api, prefix, "operations"))


def find_archive_id(api: ApiClient, text: str) -> str:
    """Return the id of the archive operation. Raises RequestRefused if not exactly one fits."""
    noun = "archive operation"
    return _find(text, noun, lambda prefix: _beginning(api, prefix, "archive_operations"))


def find_import_id(api: ApiClient, text: str) -> str:
    """Return the id of the failed import. Raises RequestRefused unless there is exactly one."""
    return _find(text, "failed import", lambda prefix: _imports_beginning(api, prefix))


def find_batch_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a batch alive. Raises RequestRefused if not exactly one fits."""
    return _find(
        text,
        "batch alive",
        lambda prefix: [
            each for each in api.page("batches").items if str(each["id"]).startswith(prefix)
        ],
    )


def find_group_id(api: ApiClient, text: str) -> str:
    """Return the whole id of a group. Raises RequestRefused if not exactly one fits."""
    return _find(text, "group", lambda prefix: _groups_beginning(api, prefix))


def is_short(text: str) -> bool:
    """Say whether the text is the beginning of an id, and not a whole id."""
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
    several = counted(len(found), "id")
    return (
        f"{several} of a {noun} begin with {text}; give more of the one you mean:\n{_name(found)}"
    )


def _name(found: Sequence[str]) -> str:
    return "\n".join(f"  {each}" for each in sorted(found)[:_MOST_NAMED])


def _beginning(api: ApiClient, prefix: str, *path: str) -> Sequence[Json]:
    return api.page(*path, id_prefix=prefix).items


def _refuse_import(api: ApiClient, text: str) -> None:
    """Raise RequestRefused if it is the id of a failed import, or its beginning."""
    if ids_beginning(text) is not None and _beginning(api, canonical(text), "imports"):
        shown = f"`retrier imports show {text}`"
        raise RequestRefused(f"{text} is a failed import and no failed message: see {shown}.")


def _imports_beginning(api: ApiClient, prefix: str) -> Sequence[Json]:
    found = _beginning(api, prefix, "imports")
    # None is left: the answer about one says what became of it, where that is known.
    return found or [api.find("imports", prefix)]


def _groups_beginning(api: ApiClient, prefix: str) -> Sequence[Json]:
    groups = ("recoverability", "groups")
    # Groups are listed by classifier; only the service knows the names of all classifiers.
    return [
        each
        for name in api.texts("recoverability", "classifiers")
        for each in api.page(*groups, name, id_prefix=prefix).items
    ]
