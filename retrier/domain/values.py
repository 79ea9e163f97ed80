"""`dataclass`, as values are made with it: frozen for the type checker, plain and fast when they run.

A frozen dataclass sets each of its fields by a call of its own: it takes four times as long to make,
and a failure makes eight of them with 75 fields. These are as good as frozen: mypy refuses each
assignment, and nothing is committed that it refuses (decision 0168).

Python compiles six functions for each frozen dataclass, which was a fifth of a start. Here it
compiles `__init__` alone (decision 0166). What users of the library hold is frozen by Python: they
import from `dataclasses`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen=False, **options):
        """Make a dataclass; one that is frozen for the type checker is hashed like a frozen one."""
        if not frozen or options.keys() - {"slots", "kw_only"}:
            return dataclasses.dataclass(frozen=frozen, **options)

        def make(cls):
            made = dataclasses.dataclass(repr=False, eq=False, **options)(cls)
            for name, function in _functions_of(made).items():
                if name not in cls.__dict__:
                    setattr(made, name, function)
            return made

        return make


def _reader_of(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return what reads these fields as a tuple."""
    match names:
        case []:
            return lambda _: ()
        case [name]:  # of one name `attrgetter` reads the field itself
            return lambda holder: (getattr(holder, name),)
        case _:
            return attrgetter(*names)


def _functions_of(made: type[Any]) -> dict[str, Callable[..., Any]]:
    """Return what Python would compile for this class: the same functions, as closures."""
    compared = [each.name for each in dataclasses.fields(made) if each.compare]
    shown = [each.name for each in dataclasses.fields(made) if each.repr]
    read = _reader_of(compared)

    def equal(self: object, other: object) -> bool:
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(read(self))

    def show(self: object) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({told})"

    return {"__eq__": equal, "__hash__": hashed, "__repr__": show}


__all__ = ["dataclass"]
