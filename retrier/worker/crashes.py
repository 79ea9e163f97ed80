"""How often a message has crashed a process that had it in hand."""

from collections.abc import Mapping
from dataclasses import dataclass

from retrier.domain.dialects.dialect import count

CRASHES = "x-caf-worker-retry"
"""Written by this worker where the broker does not count: how often a process died of it."""
DELIVERY_COUNT = "x-delivery-count"
"""Written by a quorum queue: how often it handed the message out in vain."""


@dataclass(frozen=True, slots=True)
class Startable:
    """The handler may be started; the process died of it this often before."""

    crashes: int


@dataclass(frozen=True, slots=True)
class Uncounted:
    """A crash that the broker does not count: the message is published anew with this count."""

    crashes: int


@dataclass(frozen=True, slots=True)
class Poison:
    """The handler was started this often, and each time the process died."""

    crashes: int


Verdict = Startable | Uncounted | Poison


def judge_delivery(
    headers: Mapping[str, object], *, redelivered: bool, counted: bool, limit: int
) -> Verdict:
    """Say what to do with a delivery; `counted` says that its queue counts redeliveries itself.

    The handler is started once, and `limit` times more. What was carried over in our own header
    is added: a message that was postponed is a new one for the broker's counter.
    """
    crashes = count(headers.get(CRASHES)) or 0
    if redelivered:
        crashes += (count(headers.get(DELIVERY_COUNT)) or 0) if counted else 1
    if crashes > limit:
        return Poison(crashes)
    return Uncounted(crashes) if redelivered and not counted else Startable(crashes)
