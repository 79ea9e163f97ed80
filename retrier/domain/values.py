"""Values that are made for every failure: frozen for the type checker, plain when they run.

A frozen dataclass sets each of its fields by a call of its own: it takes four times as long to make,
and a failure makes eight of them with 75 fields. These are as good as frozen: mypy refuses each
assignment, and nothing is committed that it refuses (decision 0168).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:

    def value(*, frozen, **options):
        """Make a dataclass that is frozen for the type checker; it is hashed like a frozen one."""
        return dataclass(unsafe_hash=frozen, **options)


__all__ = ["value"]
