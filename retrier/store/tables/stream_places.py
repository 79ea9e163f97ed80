"""A message's place in its stream, when it fails again."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, case, false, func

from retrier.store.schema import failed_messages

messages = failed_messages.c


def shown_values(names: Sequence[str], *, stays_in_stream: bool) -> dict[str, ColumnElement[Any]]:
    """Return what the columns with these names become: parameters, named `new_` and the name."""
    values: dict[str, ColumnElement[Any]] = {
        name: bindparam(f"new_{name}", type_=messages[name].type) for name in names
    }
    return values | (_stay_in_stream(values) if stays_in_stream else {})


def _stay_in_stream(named: Mapping[str, ColumnElement[Any]]) -> dict[str, ColumnElement[Any]]:
    """Return the columns of its stream; `named` are those that its newest failure gives.

    A consumer may lose headers at the second failure, and a redirect changes the queue: followers
    would go if it left its stream. So it stays where it was, unless the failure names another
    stream. Its place in the stream does not change either: the position that was stated when it
    joined the stream, then its number. It must be released anew.
    """
    stream_id, queue, rule = (named[name] for name in ("stream_id", "stream_queue", "stream_rule"))
    stays = stream_id.is_(None) | (stream_id == messages.stream_id)
    in_none = stream_id.is_(None) & messages.stream_id.is_(None)
    return {
        "stream_id": func.coalesce(stream_id, messages.stream_id),
        "stream_queue": case((stays, messages.stream_queue), else_=queue),
        **{
            name: case((stays, messages[name]), else_=named[name])
            for name in ("stream_position", "stream_position_unread")
        },
        "stream_rule": case((in_none, None), else_=rule),
        "released": false(),
    }
