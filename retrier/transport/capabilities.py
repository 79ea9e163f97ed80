"""What a broker can do, as its transport declares it: the engine asks it, and people are told it."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType

from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a transport can do.

    The engine asks the fields, and knows no broker by its name. `told` has a few words on each of
    ROWS: docs/transports.md is a table of them.
    """

    broker: str
    """The name of the broker, for people."""
    confirms: bool
    """What the broker has taken over is known for each message."""
    returns: bool
    """A message to a queue that does not exist is told as such, and lies nowhere."""
    existence: bool
    """The broker says whether a queue exists."""
    ordered: bool
    """The staging queue hands out copies in the order in which they were published."""
    single_consumer: bool
    """The broker itself lets one consumer at a time have the staging queue."""
    redelivers: bool
    """What a process that was killed had in hand comes back, and is not lost."""
    exact: bool
    """Body and headers go back byte for byte."""
    visibility: float | None = None
    """Seconds without a sign of life after which others are handed what a consumer has in hand.

    None: only the end of its connection tells the broker that a consumer is gone.
    """
    paid_wait: float | None = None
    """Seconds for which one request waits at an empty queue, where each request is paid for.

    None: requests cost nothing. Else what recurs is done less often.
    """
    in_file: bool = False
    """The broker is a file of this machine, and no server: its place is a path."""
    nobody_declares: bool = False
    """Nobody else declares an error queue before the first failure: Retrier does so, unasked."""
    made_by_use: bool = False
    """Clients do not declare queues: one is there as soon as somebody publishes to it or consumes it."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Words by row of the table; see ROWS."""


ROWS: Mapping[str, str] = MappingProxyType(
    {
        "confirms": "a publish is confirmed by",
        "returns": "a retry to a missing queue",
        "existence": "whether a queue exists",
        "ordered": "order of the staging queue",
        "single_consumer": "one consumer of the staging queue",
        "counting": "the end of a batch",
        "exact": "bytes",
        "attributes": "headers",
        "size": "largest message",
        "visibility": "what a consumer has in hand",
        "redelivers": "after a `kill -9`",
        "durable": "after a restart of the broker",
        "dedup": "a retry that is sent twice",
        "delay": "delay",
    }
)
"""The rows of the table, each with its heading."""

MARKER = "the frozen count; in another process an end marker behind the copies"
"""How the end of a batch is found where order is kept: by identity of the copies, never by depth."""
BY_TIME = "the frozen count; in another process a time without copies"
"""The same where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise that depends on the broker: what is said where it holds, and where it does not."""

    needs: str
    """The field of Capabilities."""
    holds: str
    fails: str


PROMISES = (
    Promise(
        needs="redelivers",
        holds="what a killed process had in hand comes back",
        fails="a failure that a killed process had in hand is lost",
    ),
    Promise(
        needs="confirms",
        holds="a retry counts as sent only when the broker has it",
        fails="a retry counts as sent when it was written, and the broker may not have it",
    ),
    Promise(
        needs="returns",
        holds="a retry to a missing queue is reverted",
        fails="a retry to a missing queue is not noticed",
    ),
    Promise(
        needs="existence",
        holds="a missing queue is told",
        fails="nobody can say whether a queue exists",
    ),
    Promise(
        needs="ordered",
        holds="copies keep their order",
        fails="copies have no order, so a batch that another process staged ends by a time without copies",
    ),
    Promise(
        needs="single_consumer",
        holds="one consumer at a time has the staging queue",
        fails="only the lease in the database keeps a second consumer off the staging queue",
    ),
    Promise(
        needs="exact",
        holds="messages go back byte for byte",
        fails="messages may go back with other bytes",
    ),
)


def list_kept(capabilities: Capabilities) -> Iterator[str]:
    """Return which promises hold, in words."""
    return (each.holds for each in PROMISES if getattr(capabilities, each.needs))


def list_not_kept(capabilities: Capabilities) -> Iterator[str]:
    """Return which promises do not hold, in words."""
    return (each.fails for each in PROMISES if not getattr(capabilities, each.needs))
