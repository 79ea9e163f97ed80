"""Previews as JSON."""

from collections.abc import Iterator, Sequence
from itertools import islice

from retrier.api.answers import Json, present
from retrier.api.parts import Sight
from retrier.api.views.messages import item
from retrier.store.queries.preview_counts import AGES, OLDEST, By, Line
from retrier.store.queries.previews import DEAD, Preview

SHOWN_SKIPPED = 1000
"""So many skipped ids at most are shown; `skipped` counts them all."""

_AGES = [*(name for name, _ in AGES), OLDEST]


def preview(found: Preview, plan: str, destination: str | None, seen: Sight) -> Json:
    """Show what an operation would do: counts, samples, warnings, and the plan to name."""
    to = _asked(destination, found) if destination else found.lines(By.DESTINATION)
    reasons = islice(found.reasons.items(), SHOWN_SKIPPED)
    return present(
        {
            "total": found.total,
            "would_retry": found.left,
            "skipped": [{"reason": why, "count": n} for why, n in found.skipped.items()],
            "dead_left_out": found.skipped.get(DEAD),
            "skipped_messages": [{"id": key, "reason": why} for key, why in reasons] or None,
            "groups": _lines(found.lines(By.GROUP), found.left),
            "queues": _lines(found.lines(By.QUEUE), found.left),
            "destinations": _lines(to, found.left),
            "ages": _lines(sorted(found.lines(By.AGE), key=_by_age), found.left),
            "attempts": _lines(sorted(found.lines(By.ATTEMPTS), key=_by_number), found.left),
            "samples": [item(each) for each in found.samples],
            "warnings": list(_warnings(found, destination, seen)),
            "plan": plan,
        }
    )


def destinations(found: Preview, destination: str | None) -> Sequence[str]:
    """Return the queues to which most of the messages would go."""
    return [destination] if destination else [each.key for each in found.lines(By.DESTINATION)]


def _asked(destination: str, found: Preview) -> Sequence[Line]:
    line = Line(key=destination, name=destination, count=found.left)
    return [line] if found.left else []


def _lines(lines: Sequence[Line], total: int) -> Json:
    shown = [
        present(
            {
                "id": None if each.key == each.name else each.key,
                "name": each.name,
                "count": each.count,
            }
        )
        for each in lines
    ]
    return {"lines": shown, "others": total - sum(each.count for each in lines)}


def _by_age(line: Line) -> int:
    return _AGES.index(line.key)


def _by_number(line: Line) -> int:
    return int(line.key)


def _warnings(found: Preview, destination: str | None, seen: Sight) -> Iterator[Json]:
    for queue in sorted(seen.missing):
        yield _warning("queue_missing", f"The queue {queue} does not exist: retries to it fail.")
    for queue, why_not in sorted(seen.unsure.items()):
        yield _warning("not_looked_at", f"Not known whether the queue {queue} exists: {why_not}.")
    if seen.why_not is not None:
        yield _warning("not_looked_at", f"Not looked whether the queues exist: {seen.why_not}.")
    for line in found.lines(By.REDIRECTS) if destination is None else ():
        text = f"A redirect applies: {line.count} messages for {line.key} go to {line.name}."
        yield _warning("redirect", text)
    copies = sum(line.count for line in found.lines(By.COPIES))
    if copies:
        yield _warning("maybe_copies", f"{copies} of them may be copies of other failed messages.")


def _warning(kind: str, text: str) -> Json:
    return {"kind": kind, "text": text}
