"""Modules that are loaded when something of them is used.

Python loads what a module imports before the first line of a command runs. To load `httpx` takes
longer than what a person waits who has pressed the tabulator, and `retrier run` never uses it.
"""

from importlib import import_module
from typing import Any


class Late:
    """Stands for a module. A type checker has to be told of it by an import of its own."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
