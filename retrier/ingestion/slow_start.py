"""How many messages ingestion lets the broker hand out at once: few at first, by number and bytes."""

UNACKED_BYTES = 64 * 1024 * 1024
"""So much at most is to lie unacknowledged in memory."""


def next_prefetch(current: int, average_bytes: float, most: int) -> int:
    """Return the prefetch after a batch was committed: doubled while both bounds allow it.

    RabbitMQ bounds by number only, so the bytes are foreseen from those of the last batch; where
    messages have grown since, the prefetch shrinks.
    """
    if average_bytes * 2 * current <= UNACKED_BYTES:
        return min(2 * current, most)
    while current > 1 and average_bytes * current > UNACKED_BYTES:
        current //= 2
    return current
