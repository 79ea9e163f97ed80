"""Work that a thread does while it waits for the broker or for the database."""

from collections.abc import Callable

WhileInFlight = Callable[[], bool]
"""Does one piece of other work, and returns whether there is more. It must raise nothing.

It is called while a window is on its way to the broker, or a statement to the database. The thread
would only wait then, so the work costs no time.
"""


def nothing_else() -> bool:
    """Do no other work, and return that there is none."""
    return False


def is_sure() -> None:
    """Take it that what is in hand is in nobody else's."""
