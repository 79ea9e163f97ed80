"""How brokers call queues: with some, two names lead to one queue.

No client library is loaded here: settings are checked by it, and whoever asks for a destination.
"""

import re
import string
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from retrier.domain.values import dataclass
from retrier.transport.transports import find_scheme

REDIS = frozenset({"redis", "rediss", "sentinel"})
KOMBUS_SEP = "\x06\x16"
KOMBUS_STEPS = (0, 3, 6, 9)
"""How Kombu names the lists of a queue's priorities in Redis, unless its options say otherwise."""

_SQS_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")
_SQS_ARN = re.compile(r"arn:[a-z-]+:sqs:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):(?P<name>.+)")
_STAGING = ".staging"
_OF_PGMQ = str.maketrans(dict.fromkeys(set(string.punctuation) - {"_"}, "_"))
"""Kombu writes an underscore for each of these in the name of a queue of pgmq."""

Alike = Callable[[str, str], bool]
"""Says whether what is sent to the second name is read from the queue of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsName:
    """A queue as SQS is asked for it: its name, and its account if an ARN says it."""

    name: str
    account: str | None = None


def read_sqs_name(queue: str, region: str) -> SqsName | None:
    """Return what SQS calls a queue; None if no queue of this region can be called so.

    A queue of another account goes by its ARN. Retrier's own staging queue has a dot in its name,
    which SQS does not allow: it has a dash there. No other name is changed.
    """
    found = _SQS_ARN.fullmatch(queue)
    if found is not None:
        if found["region"] != region or not _SQS_NAME.fullmatch(found["name"]):
            return None
        return SqsName(name=found["name"], account=found["account"])
    if queue.endswith(_STAGING):
        queue = queue.replace(".", "-")
    return SqsName(name=queue) if _SQS_NAME.fullmatch(queue) else None


def why_no_sqs_queue(queue: str, region: str) -> str | None:
    """Say why no queue that we could make is called so; None if one can be.

    A queue that goes by its ARN is never made: it would become one of our own account.
    """
    found = _SQS_ARN.fullmatch(queue)
    if queue.startswith(("https://", "http://")):
        return (
            f"{queue} is a URL: name the queue by its name, or by its ARN if it has another account"
        )
    if found is not None and found["region"] != region:
        return f"{queue} is in the region {found['region']}, and broker.url says {region}: run one Retrier for each region"
    if found is not None and _SQS_NAME.fullmatch(found["name"]):
        return (
            f"the account {found['account']} has no queue {found['name']}, or does not let us see it; "
            "a queue that goes by its ARN is never declared"
        )
    if found is None and queue.startswith("arn:"):
        return f"{queue} is no ARN of a queue of SQS"
    if read_sqs_name(queue, region) is not None:
        return None
    return (
        f"SQS takes no queue that is called {queue!r}: up to 80 letters, digits, dashes and "
        "underscores, and .fifo at the end of a FIFO queue"
    )


class OwnQueues(Container[str]):
    """The queues that Retrier itself empties, by whatever name the broker knows them."""

    def __init__(self, names: Iterable[str], alike: Alike) -> None:
        self.names = frozenset(names)
        self._alike = alike

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def find(self, name: str) -> str | None:
        """Return the queue of ours to which a name leads; None if to no one's of ours."""
        if name in self.names:
            return name
        return next((own for own in sorted(self.names) if self._alike(own, name)), None)


def are_same(own: str, other: str) -> bool:
    """Compare names letter by letter, as RabbitMQ does and the embedded broker."""
    return own == other


def find_alike(url: str, options: Mapping[Any, object]) -> Alike:
    """Return how the broker of a URL compares names; `options` are its transport options."""
    match find_scheme(url):
        case "sqs":
            region = url.rpartition("@")[2].removeprefix("sqs://").strip("/")
            return lambda own, other: _is_same_on_sqs(own, other, region)
        case "pgmq":
            return lambda own, other: _in_pgmq(own) == _in_pgmq(other)
        case scheme if scheme in REDIS:
            separator = options.get("sep", KOMBUS_SEP)
            steps = options.get("priority_steps", KOMBUS_STEPS)
            if isinstance(separator, str) and separator and isinstance(steps, list | tuple):
                lists = frozenset(f"{separator}{step}" for step in steps)
                return lambda own, other: (
                    own == other or (other.startswith(own) and other.removeprefix(own) in lists)
                )
        case _:
            pass
    return are_same


def _is_same_on_sqs(own: str, other: str, region: str) -> bool:
    """Compare by name, and by account where both say theirs.

    Without an ARN the account is that of our credentials, which is not known here: a queue of the
    same name in another account is rather taken for ours than ours for another one.
    """
    ours, theirs = read_sqs_name(own, region), read_sqs_name(other, region)
    if ours is None or theirs is None:
        return own == other
    accounts = {ours.account, theirs.account} - {None}
    return ours.name == theirs.name and len(accounts) <= 1


def _in_pgmq(queue: str) -> str:
    return queue.translate(_OF_PGMQ).casefold()
