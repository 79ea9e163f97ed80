"""How a task says what it had done before it failed."""

import pytest

from retrier.domain.streams import find_said
from retrier.integrations.steps import noting_steps


class Mute(Exception):
    """An exception that takes no attributes."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "completed_steps":
            raise AttributeError(name)
        super().__setattr__(name, value)


def work(error: Exception) -> None:
    with noting_steps() as done:
        done("reserve")
        with noting_steps() as done_inside:
            done_inside(4)
            raise error


def test_what_was_done_inside_and_around_is_said_by_the_exception():
    with pytest.raises(ValueError, match="no") as raised:
        work(ValueError("no"))

    assert sorted(find_said(raised.value)) == ["4", "reserve"]


def test_an_exception_that_takes_no_attributes_is_raised_as_it_is():
    with pytest.raises(Mute) as raised:
        work(Mute())

    assert find_said(raised.value) == ()


def test_a_task_that_succeeds_says_nothing():
    with noting_steps() as done:
        done("reserve")
