"""Work that one thread does while somebody else is at work for it: one name, one signature."""

from collections.abc import Callable

WhileInFlight = Callable[[], bool]
"""Does a piece of something else; says whether there is more of it. It raises nothing.

Called while a window is on its way to the broker, or a statement to the database: what takes time
there costs nothing then.
"""


def nothing_else() -> bool:
    """Do nothing in between."""
    return False
