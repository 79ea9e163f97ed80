"""Hands over what has to be told of a task that has ended; what cannot be now is owed, and said."""

import base64
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from logging import ERROR, WARNING
from threading import Condition, Lock, Thread

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


FIRST_WAIT = 1.0
LONGEST_WAIT = 5.0
"""Seconds between two tries, each time longer while nothing can be published."""
MOST = 1000
MOST_BYTES = 64 * 1024 * 1024
"""What is kept at most of messages that the broker does not keep for us."""


def nothing() -> None:
    """Do nothing."""


def never() -> bool:
    """Return False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Debt:
    """A message that has to be published to `queue`.

    `publish` raises as long as it cannot be; `paid` is called afterwards. With `is_void` the broker
    hands the task out again, and it will fail anew. `size` is 0 if the broker keeps the task.
    """

    queue: str
    publish: Callable[[], None]
    paid: Callable[[], None] = nothing
    is_void: Callable[[], bool] = never
    size: int = 0


class Owed:
    """Used by all threads of a process. A forked child owes nothing of what its parent owes."""

    def __init__(self, first_wait: float = FIRST_WAIT, longest_wait: float = LONGEST_WAIT) -> None:
        """Owe nothing, and start no thread, yet."""
        self._waits = first_wait, longest_wait
        self._books: dict[int, _Book] = {}

    def add(self, debt: Debt) -> bool:
        """Try again from now on; return False if too much is owed already."""
        return self._books.setdefault(os.getpid(), _Book(*self._waits)).add(debt)

    def is_owed_to(self, queue: str) -> bool:
        """Return whether something waits for this queue: what comes now waits behind it.

        Else each end of a task would find out for itself that the broker does not answer.
        """
        book = self._books.get(os.getpid())
        return book is not None and book.is_owed_to(queue)

    def finish(self, seconds: float) -> int:
        """Try at once what is left, once, and for so long at most; return how much is left then."""
        book = self._books.get(os.getpid())
        return 0 if book is None else book.finish(seconds)


class _Book:
    """The debts of one process, and the thread that pays them."""

    def __init__(self, first_wait: float, longest_wait: float) -> None:
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._changed = Condition(Lock())
        self._debts: list[Debt] = []
        self._thread: Thread | None = None
        self._is_hurried = False
        """Whether the process ends: nothing waits any more."""
        self._rounds = 0

    def add(self, debt: Debt) -> bool:
        with self._changed:
            kept = [each for each in self._debts if each.size]
            if debt.size and (
                len(kept) >= MOST or sum(each.size for each in kept) + debt.size > MOST_BYTES
            ):
                return False
            self._debts.append(debt)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="retrier owed", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def is_owed_to(self, queue: str) -> bool:
        with self._changed:
            return any(debt.queue == queue for debt in self._debts)

    def finish(self, seconds: float) -> int:
        with self._changed:
            begun, self._is_hurried = self._rounds, True
            self._changed.notify_all()
            # The round that runs may have passed by what came last: the next one has not.
            self._changed.wait_for(lambda: not self._debts or self._rounds >= begun + 2, seconds)
            self._is_hurried = False
            return len(self._debts)

    def _run(self) -> None:
        wait = self._first_wait
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._debts)
                self._changed.wait_for(lambda: self._is_hurried, wait)
                due = list(self._debts)
            is_better = self._pay(due)
            with self._changed:
                self._rounds += 1
                self._changed.notify_all()
            wait = self._first_wait if is_better else min(2 * wait, self._longest_wait)

    def _pay(self, due: list[Debt]) -> bool:
        """Try each of them, but no more of a queue that takes nothing; return if one was paid."""
        closed: set[str] = set()
        is_one_paid = False
        for debt in due:
            if debt.queue in closed:
                continue
            try:
                is_void = debt.is_void()
                if not is_void:
                    debt.publish()
            except Exception:  # noqa: BLE001 - whatever it is, it has been said when it was owed
                closed.add(debt.queue)
                self._move(debt, is_paid=False)
                continue
            self._move(debt, is_paid=True)
            is_one_paid = True
            if not is_void:
                _call(debt.paid)
        return is_one_paid

    def _move(self, debt: Debt, *, is_paid: bool) -> None:
        """Strike it out; or put it last, for it may be this one that nobody takes."""
        with self._changed:
            self._debts.remove(debt)
            if not is_paid:
                self._debts.append(debt)
            self._changed.notify_all()


def _call(paid: Callable[[], None]) -> None:
    try:
        paid()
    except Exception:  # the connection of the task may have ended meanwhile
        LOG.exception("a task whose failure was published late cannot be acknowledged")


class UnackedHold:
    """Keeps a task from being acknowledged until its failure is published."""

    def __init__(self) -> None:
        self.is_owed = False
        """Whether its failure is owed: who pays it lets the task go."""
        self._lock = Lock()
        self._is_over = False
        self._act: Callable[[], object] | None = None

    def keep(self, act: Callable[[], object]) -> bool:
        """Keep what would settle the task; False if nothing holds it any more."""
        with self._lock:
            if not self._is_over:
                self._act = act
            return not self._is_over

    def let_go(self) -> None:
        """Do what was kept, and keep nothing any more."""
        with self._lock:
            self._is_over = True
            act, self._act = self._act, None
        if act is not None:
            act()


def settle(hold: UnackedHold | None, act: Callable[[], object]) -> None:
    """Settle a task; or leave it to who publishes its failure."""
    if hold is None or not hold.keep(act):
        act()


LONGEST_SAID = 16 * 1024
"""Characters of a line from which a task can be rebuilt."""
BEHIND_OTHERS = "others wait for the same queue"


def call(act: Callable[[], None]) -> None:
    """Call it here and now."""
    act()


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A message about a task. `publish` raises what `describe` puts into words.

    `publish_late` does the same over a connection of its own, so that nobody waits for it. `hold`
    keeps the task from being acknowledged, if it is not acknowledged yet; else `rebuild` makes the text
    from which a person can do so. `settle_by` calls what lets the task go, in a thread that may.
    """

    task: str
    task_id: str
    queue: str
    done: Deed
    left: Deed
    publish: Callable[[], None]
    publish_late: Callable[[], None]
    describe: Callable[[Exception], str]
    size: int = 0
    hold: UnackedHold | None = None
    settle_by: Callable[[Callable[[], None]], object] = call
    is_void: Callable[[], bool] = never
    rebuild: Callable[[], str] | None = None


class Handovers:
    """Where messages about tasks are handed over; used by all threads of a process."""

    def __init__(self, account: Account, owed: Owed | None = None) -> None:
        """`owed`: what is tried again, and how often."""
        self._account = account
        self._owed = owed or Owed()

    def hand_over(self, message: Handover) -> None:
        """Publish it; or owe it, and say so. Never raises."""
        why = self._try(message)
        if why is None:
            self._account.note(message.done, message.task, message.task_id)
        elif message.hold is not None:
            message.hold.is_owed = True
            self._account.note(Deed.HELD_BACK, message.task, message.task_id, why)
            self._owe(message, 0)
        else:
            is_kept = self._owe(message, max(1, message.size))
            told = why if is_kept else f"{why}; it is not tried again, for too much is already"
            if message.rebuild is not None:
                told = f"{told}. The task: {message.rebuild()}"
            self._account.note(message.left, message.task, message.task_id, told)

    def finish(self, seconds: float) -> None:
        """Try once more what is owed, before the process ends. Never raises."""
        self._owed.finish(seconds)

    def _try(self, message: Handover) -> str | None:
        if self._owed.is_owed_to(message.queue):
            return BEHIND_OTHERS
        try:
            message.publish()
        except Exception as error:  # noqa: BLE001 - whatever it is, the task has its own outcome
            return message.describe(error)
        return None

    def _owe(self, message: Handover, size: int) -> bool:
        debt = Debt(
            queue=message.queue,
            publish=message.publish_late,
            paid=partial(self._pay, message),
            is_void=message.is_void,
            size=size,
        )
        return self._owed.add(debt)

    def _pay(self, message: Handover) -> None:
        self._account.note_late(message.done, message.task, message.task_id)
        if message.hold is not None:
            message.settle_by(message.hold.let_go)


def describe_task(
    task: str, task_id: str, queue: str, headers: Mapping[str, object], body: bytes
) -> str:
    """Return all that is needed to send a task again, as JSON; cut off where it is too long.

    A body of JSON is shown as it is: arguments and keywords are in it. Any other is in base 64.
    """
    about = {"task": task, "id": task_id, "queue": queue}
    try:
        shown: object = json.loads(body)
    except (ValueError, RecursionError):
        shown = {"base64": base64.b64encode(body[:LONGEST_SAID]).decode()}
    said = json.dumps({**about, "body": shown, "headers": dict(headers)}, default=repr)
    if len(said) <= LONGEST_SAID:
        return said
    return f"{said[:LONGEST_SAID]} ... (cut off, it has {len(said)} characters)"
