"""When the next cut of a rated operation is due, and whether one goes on after its canary."""

from datetime import datetime, timedelta

from retrier.domain.retry_operation import RunningCanary

LATENESS = timedelta(milliseconds=50)
"""How much of a delay the following cuts catch up: no more, or a second might exceed the rate."""


def next_cut(due: datetime | None, now: datetime, taken: int, rate: int) -> datetime:
    """Return when an operation may be cut again that has just taken so many messages.

    `due` is when this cut was due. Counted from there, a delay of a few milliseconds per cut does
    not add up to a lower rate. A long delay is not caught up. A due time that has not come says that
    the clock was set back: it is not counted from there, or each cut would wait for that hour.
    """
    begun = now if due is None or due > now + LATENESS else max(due, now - LATENESS)
    return begun + timedelta(seconds=taken / rate)


def may_go_on(canary: RunningCanary, came_back: int) -> bool:
    """Say whether an operation goes on after so many of its first messages came back."""
    return came_back <= canary.most_back


LOOK_AGAIN = timedelta(seconds=1)
"""Until a canary is judged again that could not be judged yet."""
BEFORE_THE_VERDICT = "its first messages are not judged yet: "


def verdict_timeout(canary: RunningCanary) -> timedelta:
    """Return how long after its wait a canary may stay without a verdict before a person decides."""
    return max(10 * canary.wait, timedelta(minutes=10))


def describe_canary(sent: int, came_back: int) -> str:
    """Say how many of the first messages came back: "3 of 20 came back"."""
    return f"{came_back} of {sent} came back"
