"""What an integration has published, and what it could not: counted, and said in the log."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from logging import ERROR, WARNING
from threading import Lock

LOG = logging.getLogger("retrier.integrations")

Metrics = Callable[[str, str], object]


class Deed(StrEnum):
    """What was done, or not, for a task. `metrics` is called with it and the name of the task."""

    PUBLISHED = "failure_published"
    UNPUBLISHED = "failure_not_published"
    HELD_BACK = "failure_held_back"
    CONFIRMED = "retry_confirmed"
    UNCONFIRMED = "retry_not_confirmed"


_SAID = {
    Deed.UNPUBLISHED: (ERROR, "the failure of task %s (%s) is not on the error queue: %s"),
    Deed.HELD_BACK: (
        WARNING,
        "the failure of task %s (%s) is not there yet, and the task is not acknowledged: %s",
    ),
    Deed.UNCONFIRMED: (WARNING, "the retry of task %s (%s) succeeded, and is not confirmed: %s"),
}
"""An error is what may be lost. All are tried again for as long as the process lives."""

LATE = {
    Deed.PUBLISHED: "the failure of task %s (%s) is on the error queue by now",
    Deed.CONFIRMED: "the retry of task %s (%s) is confirmed by now",
}
"""What is said of what was said not to be."""


class Account:
    """Counts of one process. Used by all its threads."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        """`metrics`: called for each deed, in the process that did it."""
        self._metrics = metrics
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        if hasattr(os, "register_at_fork"):
            # A thread that publishes late may hold it while a child is made, where nobody would
            # ever let it go.
            os.register_at_fork(after_in_child=self._renew_lock)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each deed was done in this process."""
        with self._lock:
            return dict(self._counts)

    def note(self, deed: Deed, task: str, task_id: str, why: str = "") -> None:
        """Count it, and log a failure to publish. Never raises, whatever `metrics` does."""
        with self._lock:
            self._counts[deed] += 1
        if deed in _SAID:
            level, text = _SAID[deed]
            LOG.log(level, text, task, task_id, why)
        try:
            if self._metrics is not None:
                self._metrics(deed, task)
        except Exception:  # a function of the user's
            LOG.exception("the function metrics raised an exception")

    def note_late(self, deed: Deed, task: str, task_id: str) -> None:
        """Count what was done after all, and say it to who has read that it was not."""
        LOG.warning(LATE[deed], task, task_id)
        self.note(deed, task, task_id)

    def _renew_lock(self) -> None:
        self._lock = Lock()
