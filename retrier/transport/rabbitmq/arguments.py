"""Finds out with which arguments a queue was declared.

The broker reveals them only when it refuses a declaration: it names the first one that differs. So
this declares again and again, each time with one more known argument. Each declaration has an
argument that makes it invalid for a new queue: a queue that was deleted a moment ago is not
declared anew by a question (decision 0036).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from retrier.transport.rabbitmq.breaks import Difference
from retrier.transport.seam import DeliveryLimit

MOST_ARGUMENTS = 20
DELIVERY_LIMIT = "x-delivery-limit"
UNLIMITED = -1
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
NO_EXCHANGE = 0
"""No name of an exchange: a new queue is refused with it, and it differs from any that has one."""
MAX_PRIORITY = "x-max-priority"
NO_PRIORITIES = "none"
"""A new quorum queue is refused with it, and one that exists is not compared with it."""
NOT_QUORUM = frozenset({"x-queue-type", "durable", "auto_delete", "exclusive", MAX_PRIORITY})
"""If one of these differs from our declaration, the queue is not a quorum queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A declaration to try."""

    arguments: Mapping[str, Any]
    flags: Mapping[str, bool] = field(
        default_factory=lambda: {"durable": True, "auto_delete": False}
    )

    def but(self, found: Difference) -> "Declaration | None":
        """Return it with what was found; None if that adds nothing."""
        if found.argument in self.flags and isinstance(found.value, bool):
            return replace(self, flags={**self.flags, found.argument: found.value})
        if found.value is None or found.argument in {"", "exclusive", *self.arguments}:
            return None
        return replace(self, arguments={**self.arguments, found.argument: found.value})


Try = Callable[[Declaration], Difference | None]
"""Returns in what the queue differs from the declaration; None if in nothing."""


def has_dead_letter_exchange(declare: Try) -> bool | None:
    """Return whether the arguments of the queue name one; None if that is not revealed."""
    wanted: Declaration | None = Declaration(arguments={DEAD_LETTER_EXCHANGE: NO_EXCHANGE})
    for _ in range(MOST_ARGUMENTS):
        differs = declare(wanted) if wanted is not None else None
        if wanted is None or differs is None:
            return None
        if differs.argument == DEAD_LETTER_EXCHANGE:
            return differs.given
        wanted = wanted.but(differs)
    return None


def is_quorum(declare: Try) -> bool:
    """Return whether it is a quorum queue. Nothing is declared, even if the queue is missing."""
    wanted = Declaration(arguments={"x-queue-type": "quorum", MAX_PRIORITY: NO_PRIORITIES})
    differs = declare(wanted)
    return differs is None or differs.argument not in {"", *NOT_QUORUM}


def find_delivery_limit(declare: Try, *, usual: int | None) -> DeliveryLimit | None:
    """Return the limit after which a quorum queue drops what is redelivered; None if it has none.

    `usual` is the limit that the broker sets where there is no argument, if it sets one: there
    an argument of -1 means that there is none.
    """
    by_default = None if usual is None else DeliveryLimit(most=usual)
    wanted: Declaration | None = Declaration(
        arguments={"x-queue-type": "quorum", MAX_PRIORITY: NO_PRIORITIES}
    )
    for _ in range(MOST_ARGUMENTS):
        if wanted is None:
            break
        differs = declare(wanted)
        if differs is None:
            return by_default
        if differs.argument == DELIVERY_LIMIT:
            return _read_limit(differs, by_default)
        if differs.argument in {"", *NOT_QUORUM, *wanted.arguments}:
            return None
        wanted = wanted.but(differs)
    return by_default and DeliveryLimit(most=None)


def _read_limit(differs: Difference, by_default: DeliveryLimit | None) -> DeliveryLimit | None:
    if by_default is not None and differs.value == UNLIMITED:
        return None
    return DeliveryLimit(most=differs.value if isinstance(differs.value, int) else None)
