"""Conditions at random, in ones to threes: mostly values that messages have, some that are near one."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta, timezone

from tests.properties.selections.drawn_messages import ZONES
from tests.properties.selections.faces import Order
from tests.properties.selections.meaning import (
    OWN_TEXT,
    SORTS,
    STATUSES,
    Conditions,
    Known,
    groups_of,
    read_end,
    read_time,
)

_NEAR = 0.15
"""How often a value is one that is only near."""
_OUTCOME = 0.6
"""How often an outcome goes with an operation; alone it is refused."""
_SAME = 0.7
"""How often all conditions are true of one message, so that something matches all of them."""


def draw_conditions(dice: random.Random, messages: Sequence[Known]) -> Conditions:
    """Draw one to three conditions; now and then none at all."""
    count = dice.choices((0, 1, 2, 3), (1, 20, 20, 20))[0]
    names = dice.sample(sorted(_VALUES), count)
    if {"queue", "queueaddress"} <= set(names):
        names.remove("queueaddress")
    if {"status", "disposition"} <= set(names):
        names.remove("status")
    one = dice.choice(messages) if dice.random() < _SAME else None
    drawn = {name: _VALUES[name](dice, one or dice.choice(messages)) for name in names}
    wanted = {name: _come_near(dice, name, value) for name, value in drawn.items() if value}
    if "operation" in wanted and dice.random() < _OUTCOME:
        wanted["outcome"] = dice.choice(("confirmed", "came_back", "waiting", "presumed"))
    return _not_turned(wanted)


def draw_order(dice: random.Random) -> Order:
    """Draw how a list is sorted, and the size of its pages."""
    per_page = dice.choice((500, 500, 50, 97, 20, 499))
    return Order(
        sort=dice.choice(SORTS),
        descending=dice.random() < 0.5,
        per_page=per_page,
        by_place=dice.random() < 0.5,
    )


def _not_turned(wanted: Conditions) -> Conditions:
    """Leave out the end of a time that lies before its beginning: that is refused."""
    if not {"failed_from", "failed_to"} <= wanted.keys():
        return wanted
    if read_time(wanted["failed_from"]) <= read_end(wanted["failed_to"]):
        return wanted
    return {name: value for name, value in wanted.items() if name != "failed_to"}


def _come_near(dice: random.Random, name: str, value: str) -> str:
    if name not in _TEXTS or dice.random() > _NEAR:
        return value
    changes: Sequence[Callable[[str], str]] = (
        *(str.upper, str.lower, str.strip, str.swapcase),
        lambda text: f"{text} ",
        lambda text: f" {text}",
        lambda text: text[:-1],
        lambda text: f"{text[:-1]}%",
        lambda text: f"{text[:-1]}_",
        lambda text: f"{text}'",
    )
    return dice.choice(changes)(value) or value


def _draw_status(dice: random.Random, message: Known) -> str:
    if dice.random() < 0.15:
        return "dead"
    names = list(dict.fromkeys([message.status, *dice.sample(STATUSES, dice.randint(0, 2))]))
    excluded = dice.sample(STATUSES, dice.randint(1, 2))
    form = dice.random()
    if form < 0.2:
        return ",".join(f"-{name}" for name in excluded)
    return ",".join(names)


def _draw_time(dice: random.Random, message: Known) -> str:
    """Draw the time of a failure, or a microsecond beside it, by some clock of the world.

    Now and then as people see it: to the second, to the minute, or its day.
    """
    beside = timedelta(microseconds=dice.choice((0, 0, -1, 1)))
    zone = timezone(timedelta(minutes=dice.choice(ZONES)))
    time = (message.sent.failed_at + beside).astimezone(zone)
    written = dice.choice(("auto", "microseconds", "seconds", "minutes", "day"))
    return f"{time:%Y-%m-%d}" if written == "day" else time.isoformat(timespec=written)


def _draw_changes(dice: random.Random, message: Known) -> str:
    before = message.modified - timedelta(microseconds=dice.choice((0, 0, 10**9)))
    after = message.modified + timedelta(microseconds=dice.choice((0, 0, 10**9)))
    written = dice.choice(("auto", "seconds"))
    return f"{before.isoformat()}...{after.isoformat(timespec=written)}"


def _draw_reason(dice: random.Random, message: Known) -> str:
    """Draw the word of the headers, or what it is classified under, however it is written."""
    name = message.reason
    written = (name, name, name.title().replace("_", ""), name.upper(), name.replace("_", "-"))
    return dice.choice((*written, message.sent.word or name, message.sent.word or name))


def _draw_text(dice: random.Random, message: Known) -> str:
    """Draw a piece of what a message says, in any case, or one of its ids."""
    sent = message.sent
    texts = (
        *(sent.queue, sent.endpoint, sent.message_type, sent.exception_type, sent.word),
        *(sent.exception_message, sent.exception_message, sent.message_id, message.unique_id),
    )
    text = dice.choice([each for each in texts if each])
    if text in (sent.message_id, message.unique_id):
        return text
    start = dice.randrange(len(text))
    piece = text[start : start + dice.randint(2, 12)]
    return dice.choice((str, str.upper, str.lower, str.title))(piece)


_VALUES: Mapping[str, Callable[[random.Random, Known], str | None]] = {
    "status": _draw_status,
    "queue": lambda _, each: each.sent.queue,
    "queueaddress": lambda _, each: each.sent.queue,
    "endpoint": lambda dice, each: each.endpoint or dice.choice((each.sent.queue, "Sales")),
    "exception_type": lambda _, each: each.sent.exception_type,
    "message_type": lambda _, each: each.sent.message_type,
    "stream": lambda _, each: each.sent.stream,
    "host": lambda _, each: each.sent.host,
    "process": lambda _, each: each.sent.process,
    "node": lambda _, each: each.sent.node,
    "message_id": lambda _, each: each.sent.message_id,
    "group": lambda dice, each: dice.choice((str, str.upper))(
        dice.choice(sorted(groups_of(each.sent)))
    ),
    "reason": _draw_reason,
    "failed_from": _draw_time,
    "failed_to": _draw_time,
    "attempts_at_least": lambda dice, _: str(dice.randint(1, 3)),
    "disposition": lambda dice, each: dice.choice((each.disposition, "any", "dead")),
    "modified": _draw_changes,
    "archived_by": lambda _, each: each.archived_by,
    "operation": lambda dice, each: (
        each.operation and dice.choice((str, str.upper))(each.operation)
    ),
    "id_prefix": lambda dice, each: each.unique_id[: dice.choice((8, 9, 13, 36))],
    **({"text": _draw_text} if OWN_TEXT else {}),
}
_TEXTS = frozenset(
    (
        *("queue", "queueaddress", "endpoint", "exception_type", "message_type", "stream"),
        *("host", "process", "node", "message_id", "reason"),
    )
)
