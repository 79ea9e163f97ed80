"""Texts compared and sorted by code point on both databases, whatever collation they have."""

from typing import Any

from sqlalchemy import Boolean
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import Text


class by_code_point(GenericFunction[str]):  # noqa: N801 - used as a function
    """A text as it is sorted: PostgreSQL is told so, and SQLite knows no other order."""

    type = Text()
    inherit_cache = True
    name = "retrier_by_code_point"


class contains(GenericFunction[bool]):  # noqa: N801 - used as a function
    """Whether the first text has the second one in it: byte for byte, without wildcards."""

    type = Boolean()
    inherit_cache = True
    name = "retrier_contains"


@compiles(by_code_point, "postgresql")
def _collate(element: by_code_point, compiler: SQLCompiler, **options: Any) -> str:
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


@compiles(by_code_point)
def _as_it_is(element: by_code_point, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(contains, "postgresql")
def _find(element: contains, compiler: SQLCompiler, **options: Any) -> str:
    return f"(strpos({compiler.process(element.clauses, **options)}) > 0)"


@compiles(contains)
def _look(element: contains, compiler: SQLCompiler, **options: Any) -> str:
    """Use GLOB, which minds case: of a million texts it takes two thirds of the time of `instr`."""
    text, wanted = (compiler.process(each, **options) for each in element.clauses)
    for wildcard in "[*?":
        wanted = f"replace({wanted}, '{wildcard}', '[{wildcard}]')"
    return f"({text} GLOB '*' || {wanted} || '*')"
