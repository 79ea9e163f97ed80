"""What a refused declaration tells: the first argument that a queue has otherwise.

No other answer of the broker says with which arguments a queue was declared. The words are cut
off at 255 bytes, so that the value may be missing.
"""

import re
from dataclasses import dataclass

_ARGUMENT = re.compile(r"inequivalent arg '([^']+)'")
_VALUE = re.compile(r"current is the value '(.*)' of type '(\w+)'", re.DOTALL)
_NUMBERS = frozenset({"byte", "short", "signedint", "long", "unsignedbyte", "unsignedint"})

Value = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An argument of a queue. `value` is None where it is not there or was not told.

    `argument` is empty where something else was refused than an argument.
    """

    argument: str
    value: Value | None


def read_difference(words: str) -> Difference:
    """Take the broker's words apart."""
    argument, value = _ARGUMENT.search(words), _VALUE.search(words)
    return Difference(
        argument=argument[1] if argument else "",
        value=_read(value[1], value[2]) if value else None,
    )


def _read(content: str, kind: str) -> Value | None:
    if kind == "longstr":
        return content
    if kind == "bool":
        return content == "true"
    return int(content) if kind in _NUMBERS else None
