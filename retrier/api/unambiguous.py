"""Refuses what has two readings, or none: members that stand twice, parameters nobody reads.

Of two members with one name the last one wins in JSON, so what was written first would be dropped
in silence: `{"selection": {"queue": "x"}, "selection": {"all": true}}` would mean everything.
"""

import json
from collections.abc import Sequence

from anyio import to_thread
from fastapi import Request

from retrier.api.problems import WrongField
from retrier.domain.parameters import Stray, find_strays, find_too_long, names_read_by
from retrier.domain.text import COLUMN_BYTES

_LONGEST_SHOWN = 100
_MOST_MEMBERS = 1000
"""Nothing here reads more than some dozens; each that nobody reads would be told."""
_QUICK = 64 * 1024
"""Bytes; a larger body is read again in a thread, so that others are answered meanwhile."""


async def refuse_members_that_stand_twice(request: Request) -> None:
    """Refuse a body in JSON in which an object, however deep, has a member twice.

    What is no JSON is refused by whoever reads it, and what nobody reads is not looked at. Raises
    WrongField.
    """
    if getattr(request.scope.get("route"), "body_field", None) is None:
        return
    content = await request.body()
    if len(content) <= _QUICK:
        _look_through(content)
    else:
        await to_thread.run_sync(_look_through, content)


def _look_through(content: bytes) -> None:
    try:
        json.loads(content, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return


def _distinct(members: Sequence[tuple[str, object]]) -> None:
    if len(members) > _MOST_MEMBERS:
        raise WrongField("body", f"An object has at most {_MOST_MEMBERS} members.")
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            shown = _shown(name)
            raise WrongField(f"body.{shown}", f"The member {shown} stands twice in one object.")
        seen.add(name)


def _shown(name: str) -> str:
    # Half of a surrogate pair, which JSON may hold, cannot be written into an answer.
    return name[:_LONGEST_SHOWN].encode(errors="backslashreplace").decode()


_ANYWHERE = frozenset(
    ("page", "per_page", "sort", "direction", "instance_id", "include_system_messages")
)
"""ServiceControl's parameters that select nothing: its clients send them to lists of all kinds."""
_FREE_TEXT = "comment"
"""ServicePulse does not encode `&` and `%` in it, so anything may seem to be a parameter."""


_BOUNDS = {"kind": 8 * COLUMN_BYTES, "after": 16 * COLUMN_BYTES}
"""Bytes of a list of kinds, of which there are dozens, and of a place, which holds a text in writing."""


async def refuse_strays(request: Request) -> None:
    """Refuse parameters that nobody reads, that stand twice, or that are too long.

    Raises WrongField.
    """
    known = frozenset(names_read_by(request.scope["route"].dependant))
    if _FREE_TEXT in known:
        return
    given = [each for each in request.query_params.multi_items() if each[0] not in _ANYWHERE]
    for stray in find_strays((name for name, _ in given), known):
        raise WrongField(f"query.{stray.shown}", _why(stray, known))
    long = find_too_long(given, _BOUNDS)
    if long is not None:
        most = _BOUNDS.get(long, COLUMN_BYTES)
        raise WrongField(
            f"query.{long}"[:_LONGEST_SHOWN], f"{long[:_LONGEST_SHOWN]} has at most {most} bytes."
        )


def _why(stray: Stray, known: frozenset[str]) -> str:
    if stray.is_repeated:
        return f"The parameter {stray.shown} stands twice in the address."
    nobody = f"Nothing here reads a parameter {stray.shown}"
    if stray.nearest:
        return f"{nobody}; perhaps {stray.nearest} is meant."
    return f"{nobody}; what is read: {', '.join(sorted(known)) or 'none'}."
