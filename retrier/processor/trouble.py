"""What the processor says of its troubles: which are one and the same, and the event of each."""

from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
    RetrierError,
    StagingQueueUnusable,
)
from retrier.logs import Say

SERVERS = (BrokerUnavailable, DatabaseUnavailable)


def kind_of(error: Exception) -> type[Exception]:
    """Return what makes one trouble: all the ways in which a server is out of reach are one."""
    return next((kind for kind in SERVERS if isinstance(error, kind)), type(error))


def say_why(say: Say, error: Exception) -> None:
    """Say the event of this error."""
    reason = str(error)
    match error:
        case BrokerUnavailable():
            say("broker.unreachable", reason=reason)
        case DatabaseUnavailable():
            say("database.unreachable", reason=reason)
        case StagingQueueUnusable():
            say("staging.unusable", reason=reason)
        case LeaseLost():
            say("processor.lease_lost", reason=reason)
        case RetrierError():
            say("processor.backing_off", reason=reason)
        case _:
            say("processor.turn_failed", error=type(error).__name__, exc_info=error)
