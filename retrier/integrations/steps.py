"""For tasks of Celery and Dramatiq: what was done before a task failed is said with its failure."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from retrier.domain.streams import ATTRIBUTE, read_said

Note = Callable[[str | int], None]


@contextmanager
def noting_steps() -> Iterator[Note]:
    """Give a function that notes a step as done, by its name or as flags.

    What is raised inside is told with them: they are its attribute `completed_steps`.
    """
    done: list[str] = []

    def note(step: str | int) -> None:
        done.extend(read_said(step))

    try:
        yield note
    except BaseException as error:
        # An exception that takes no attributes is raised as it is.
        with suppress(AttributeError, TypeError):
            setattr(error, ATTRIBUTE, [*read_said(getattr(error, ATTRIBUTE, None)), *done])
        raise
