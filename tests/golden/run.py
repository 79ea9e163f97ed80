"""What the story itself leaves behind: log lines, metrics, messages published, statements sent."""

import re
from collections.abc import Iterable

from amqp.basic_message import Message

from tests.golden.asked import in_lines, shown
from tests.golden.frozen import Sent
from tests.golden.world import World

OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}

_CLAUSE = re.compile(
    r" (FROM|WHERE|AND|OR|ORDER BY|GROUP BY|LIMIT|(?:LEFT OUTER )?JOIN|UNION|VALUES|SET|RETURNING) "
)
_IN_LINES = r"\n   \1 "


_OF_A_BUSY_MACHINE = '"event": "processor.lease_held_long"'
"""That a transaction took long: the one thing that is not timed by the frozen clock."""


def log(world: World) -> dict[str, str]:
    """Return the lines of the log, one each; without what only a busy machine says."""
    lines = world.log.getvalue().splitlines()
    return {"log": "\n".join(each for each in lines if _OF_A_BUSY_MACHINE not in each)}


def metrics(world: World) -> dict[str, str]:
    """Return what a scrape reads, in both forms."""
    return {
        "GET /metrics": shown(world.http.get("/metrics")),
        "GET /metrics as OpenMetrics": shown(world.http.get("/metrics", headers=OPEN_METRICS)),
    }


def published(world: World) -> dict[str, str]:
    """Return each message that was published, in order: where to, properties as read, and bytes."""
    found: dict[str, str] = {}
    for number, each in enumerate(world.transport.published, 1):
        read = Message()
        read._load_properties(60, each.raw, 0)  # noqa: SLF001 - a reader that is not ours
        fields = dict(read.properties)
        headers = fields.pop("application_headers", {})
        lines = [
            *(f"{name}: {value!r}" for name, value in fields.items()),
            *(f"header {name}: {value!r}" for name, value in headers.items()),
            f"raw: {each.raw!r}",
            f"body: {in_lines(each.body)}",
        ]
        found[f"{number} to {each.queue}"] = "\n".join(lines)
    return found


def statements(sent: Iterable[Sent]) -> dict[str, str]:
    """Return what each verb sends: its statements by number, and in which order they were sent."""
    numbers: dict[str, dict[str, int]] = {}
    orders: dict[str, set[str]] = {}
    for verb, texts in (each for world in sent for each in world):
        known = numbers.setdefault(verb, {})
        order = [known.setdefault(text, len(known) + 1) for text in texts]
        orders.setdefault(verb, set()).add(" ".join(map(str, _once(order))))
    return {
        verb: "\n".join(
            [
                *(
                    f"{number}. {_CLAUSE.sub(_IN_LINES, text)}"
                    for text, number in numbers[verb].items()
                ),
                "sent in these orders:",
                *sorted(orders[verb]),
            ]
        )
        for verb in sorted(numbers)
    }


def _once(order: list[int]) -> list[int]:
    """Return it without what is repeated at once: how often depends on how much there is."""
    return [each for each, before in zip(order, [0, *order], strict=False) if each != before]
