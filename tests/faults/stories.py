"""What the log tells of an outage: each part's trouble begins once and ends once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

BEGINS = {
    "ingestion.paused": "ingestion",
    "broker.unreachable": "processor",
    "database.unreachable": "processor",
    "staging.renewed": "processor",
    "staging.unusable": "processor",
    "processor.lease_lost": "lease",
    "processor.gave_way": "lease",
    "archive.paused": "archiving",
    "outgoing.paused": "outgoing",
    "policies.wrong": "policies",
    "tick.failed": "tick",
}
ENDS = {
    "ingestion.resumed": "ingestion",
    "processor.recovered": "processor",
    "processor.lease_acquired": "lease",
    "archive.resumed": "archiving",
    "outgoing.resumed": "outgoing",
    "policies.right": "policies",
    "tick.recovered": "tick",
}
OF_MESSAGES = {
    "message.reverted",
    "message.ejected",
    "policies.dead",
    "batch.moved",
    "batch.backing_off",
    "batch.sent_again",
    "database.sessions_ended",
    "ingestion.delivery_limit",
    "breaker.opened",
}
"""Warnings that tell of the work, of another process or of a queue, and not of an outage."""
MOST_TROUBLES = 2
"""So often at most may one part be in trouble in one fault: a server that starts may stumble."""

Line = Mapping[str, Any]
Troubles = list[list[str]]


def find_troubles(lines: Iterable[Line]) -> Mapping[str, Troubles]:
    """Return the troubles of each part, each as the events that told of it; a last [] is its end."""
    troubles: dict[str, Troubles] = defaultdict(lambda: [[]])
    for line in lines:
        event = str(line.get("event"))
        tick = f" {line['tick']}" if "tick" in line else ""
        if event in BEGINS:
            troubles[BEGINS[event] + tick][-1].append(event)
        elif event in ENDS:
            troubles[ENDS[event] + tick].append([])
    return troubles


OF_A_SLOW_DATABASE = "processor.lease_held_long"
"""Told once a minute of one kind of transaction, for as long as each takes that long: it has no end."""


def count_lines(lines: Iterable[Line]) -> int:
    """Return how many lines tell of a trouble or of its end."""
    return sum(line.get("event") in BEGINS or line.get("event") in ENDS for line in lines)


def are_over(lines: Iterable[Line]) -> bool:
    """Whether every part that told of a trouble also told of its end."""
    return all(troubles[-1] == [] for troubles in find_troubles(lines).values())


def find_noise(lines: Iterable[Line]) -> list[str]:
    """Return what was told in more lines than there were changes of state."""
    lines = list(lines)
    return [*_find_repeated(find_troubles(lines)), *_find_unknown(lines)]


def _find_repeated(troubles: Mapping[str, Troubles]) -> Iterator[str]:
    for part, each in troubles.items():
        repeated = [event for one in each for event, times in Counter(one).items() if times > 1]
        yield from (f"{part}: {event} is told twice of one trouble" for event in repeated)
        if len(list(filter(None, each))) > MOST_TROUBLES:
            yield f"{part}: {len(each)} troubles in one fault"


def _find_unknown(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        known = line.get("event") in {*BEGINS, *ENDS, *OF_MESSAGES, OF_A_SLOW_DATABASE}
        if line.get("level") not in (None, "info") and not known:
            yield f"unexpected: {line}"
