"""What a message shows that is stored only within the bytes of its attempt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from retrier.domain.shown import Shown, derive
from retrier.domain.wire import PropertyCodec
from retrier.store.schema import causes, processing_attempts

attempts = processing_attempts.c

SOURCES = (
    attempts.raw_properties,
    attempts.dialect,
    attempts.exception_message,
    attempts.stack_trace,
    causes.c.queue,
)
"""The columns that it is made of."""


def texts_of(row: Mapping[str, Any], codec: PropertyCodec) -> Shown:
    """Return headers and texts of a row with these columns; what has a column of its own wins."""
    shown = derive(codec, row["raw_properties"], dialect=row["dialect"], otherwise=row["queue"])
    return replace(
        shown,
        exception_message=row["exception_message"] or shown.exception_message,
        stack_trace=row["stack_trace"] or shown.stack_trace,
    )
