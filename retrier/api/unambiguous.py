"""Refuses what has two readings: a member of a body that stands twice.

Of two members with one name the last one wins in JSON, so what was written first would be dropped
in silence: `{"selection": {"queue": "x"}, "selection": {"all": true}}` would mean everything.
"""

import json
from collections.abc import Sequence

from anyio import to_thread
from fastapi import Request

from retrier.api.problems import WrongField

_LONGEST_SHOWN = 100
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
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            shown = _shown(name)
            raise WrongField(f"body.{shown}", f"The member {shown} stands twice in one object.")
        seen.add(name)


def _shown(name: str) -> str:
    # Half of a surrogate pair, which JSON may hold, cannot be written into an answer.
    return name[:_LONGEST_SHOWN].encode(errors="backslashreplace").decode()
