"""The table of docs/transports.md, made from what the transports declare."""

from retrier.transport.capabilities import PROMISES, ROWS, Capabilities
from retrier.transport.embedded.transport import CAPABILITIES as EMBEDDED
from retrier.transport.other_brokers import describe
from retrier.transport.rabbitmq.transport import CAPABILITIES as RABBITMQ
from retrier.transport.redis.transport import CAPABILITIES as REDIS

DECLARED = (RABBITMQ, EMBEDDED, REDIS, describe("pgmq"), describe("filesystem"))


def overview() -> list[str]:
    """Return a line for each capability, with a column for each broker."""
    lines = [
        f"| | {' | '.join(each.broker for each in DECLARED)} |",
        f"|---|{'---|' * len(DECLARED)}",
    ]
    for name, heading in ROWS.items():
        lines.append(f"| {heading} | {' | '.join(each.told[name] for each in DECLARED)} |")
    return lines


def promises() -> list[str]:
    """Return a line for each promise: where it holds, and what is said where it does not."""
    lines = ["| promise | holds with | without it |", "|---|---|---|"]
    for each in PROMISES:
        names = [one.broker for one in DECLARED if getattr(one, each.needs)]
        lines.append(f"| {each.holds} | {', '.join(names)} | {each.fails} |")
    return lines


def fields_without_words(capabilities: Capabilities) -> set[str]:
    """Return the rows on which a transport says nothing."""
    return ROWS.keys() - capabilities.told.keys()
