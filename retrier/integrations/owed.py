"""What could not be published, and is tried again until it is: as long as this process lives."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Lock, Thread

from retrier.integrations.account import LOG

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
    except Exception:  # noqa: BLE001 - the connection of the task may have ended meanwhile
        LOG.exception("a task whose failure was published late cannot be acknowledged")


class Hold:
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


def settle(hold: Hold | None, act: Callable[[], object]) -> None:
    """Settle a task; or leave it to who publishes its failure."""
    if hold is None or not hold.keep(act):
        act()
