"""What could not be published is tried again until it is, in bounded memory, and never in the way."""

from collections.abc import Callable

import pytest

from retrier.integrations import handover as module
from retrier.integrations.handover import Debt, Owed, UnackedHold
from tests.support.waiting import wait_until

SOON = 0.01
DEADLINE = 10


class Queue:
    """Takes messages while it is open."""

    def __init__(self, name: str = "error", *, is_open: bool = False) -> None:
        self.name = name
        self.is_open = is_open
        self.took: list[str] = []
        self.tried: list[str] = []

    def debt(self, message: str, **more: object) -> Debt:
        return Debt(queue=self.name, publish=self._publisher(message), **more)  # type: ignore[arg-type]

    def _publisher(self, message: str) -> Callable[[], None]:
        def publish() -> None:
            self.tried.append(message)
            if not self.is_open or message == "refused":
                raise ConnectionError(message)
            self.took.append(message)

        return publish


@pytest.fixture
def owed() -> Owed:
    return Owed(SOON, SOON)


def test_it_is_tried_until_it_is_taken_and_then_paid_once(owed: Owed) -> None:
    queue, paid = Queue(), []
    owed.add(queue.debt("a", paid=lambda: paid.append("a")))
    wait_until(lambda: len(queue.tried) > 2, DEADLINE)
    assert paid == []

    queue.is_open = True

    wait_until(lambda: paid == ["a"], DEADLINE)
    wait_until(lambda: not owed.is_owed_to("error"), DEADLINE)
    assert queue.took == ["a"]


def test_one_that_nobody_takes_holds_up_none_behind_it(owed: Owed) -> None:
    queue = Queue(is_open=True)

    for message in ("refused", "a", "b"):
        owed.add(queue.debt(message))

    wait_until(lambda: sorted(queue.took) == ["a", "b"], DEADLINE)
    assert owed.is_owed_to("error")


def test_a_queue_that_takes_nothing_holds_up_no_other(owed: Owed) -> None:
    closed, other = Queue("error"), Queue("acks", is_open=True)

    owed.add(closed.debt("a"))
    owed.add(other.debt("b"))

    wait_until(lambda: other.took == ["b"], DEADLINE)


def test_what_the_broker_hands_out_again_is_owed_no_more(owed: Owed) -> None:
    queue, paid = Queue(is_open=True), []

    owed.add(queue.debt("a", is_void=lambda: True, paid=lambda: paid.append("a")))

    wait_until(lambda: not owed.is_owed_to("error"), DEADLINE)
    assert (queue.took, paid) == ([], [])


def test_what_cannot_be_acknowledged_any_more_ends_nothing(owed: Owed) -> None:
    queue = Queue(is_open=True)

    owed.add(queue.debt("a", paid=lambda: 1 // 0))
    owed.add(queue.debt("b"))

    wait_until(lambda: queue.took == ["a", "b"], DEADLINE)


def test_no_more_is_kept_than_fits_but_what_the_broker_keeps_takes_no_room() -> None:
    owed, queue = Owed(60, 60), Queue()

    assert owed.add(queue.debt("a", size=module.MOST_BYTES))
    assert not owed.add(queue.debt("b", size=1))
    assert owed.add(queue.debt("c"))


def test_the_end_of_a_process_tries_once_more_at_once_and_says_what_is_left() -> None:
    owed, queue = Owed(60, 60), Queue(is_open=True)
    owed.add(queue.debt("a"))
    owed.add(queue.debt("refused"))

    assert owed.finish(DEADLINE) == 1
    assert queue.took == ["a"]


def test_a_task_is_settled_only_when_its_failure_is_published() -> None:
    hold, acts = UnackedHold(), []

    assert hold.keep(lambda: acts.append("acknowledged"))
    assert acts == []

    hold.let_go()
    assert acts == ["acknowledged"]


def test_a_task_whose_failure_is_published_already_is_held_no_more() -> None:
    hold = UnackedHold()

    hold.let_go()

    assert not hold.keep(lambda: None)
