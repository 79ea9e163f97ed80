"""Processes that share the tests: who is alone has nobody beside him."""

import fcntl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.support.turns import turn
from tests.support.waiting import let_pass, wait_until

House = tuple[Path, Path]
DEADLINE = 10
A_MOMENT = 0.05


@pytest.fixture
def house(tmp_path: Path) -> House:
    door, room = tmp_path / "door", tmp_path / "room"
    door.touch()
    room.touch()
    return door, room


class Others:
    """Processes beside this one. What they do is written down as they do it."""

    def __init__(self, house: House, pool: ThreadPoolExecutor) -> None:
        self.done: list[str] = []
        self._house, self._pool = house, pool

    def begin(self, name: str, *, alone: bool = False) -> Future[None]:
        """Let one ask for its turn, and give it a moment to get it."""
        asked = Event()

        def take() -> None:
            asked.set()
            with turn(alone=alone, house=self._house):
                self.done.append(name)

        taken = self._pool.submit(take)
        assert asked.wait(DEADLINE)
        let_pass(A_MOMENT)
        return taken


@pytest.fixture
def others(house: House) -> Iterator[Others]:
    with ThreadPoolExecutor() as pool:
        yield Others(house, pool)


def is_taken(door: Path) -> bool:
    with door.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_others_go_on_beside_each_other(house: House, others: Others) -> None:
    with turn(alone=False, house=house):
        others.begin("one").result(DEADLINE)
        others.begin("another").result(DEADLINE)

    assert others.done == ["one", "another"]


@pytest.mark.parametrize("alone", [True, False])
def test_nobody_is_beside_who_is_alone(house: House, others: Others, alone: bool) -> None:  # noqa: FBT001 - parametrised
    with turn(alone=True, house=house):
        other = others.begin("other", alone=alone)
        others.done.append("it ends")

    other.result(DEADLINE)
    assert others.done == ["it ends", "other"]


def test_who_waits_to_be_alone_is_let_in_before_who_comes_later(
    house: House, others: Others
) -> None:
    with turn(alone=False, house=house):
        alone = others.begin("alone", alone=True)
        wait_until(lambda: is_taken(house[0]), DEADLINE)
        later = others.begin("later")
        others.done.append("it ends")

    for each in (alone, later):
        each.result(DEADLINE)
    assert others.done == ["it ends", "alone", "later"]
