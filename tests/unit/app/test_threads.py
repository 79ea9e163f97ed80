"""A part of the service that ends by an exception."""

from retrier.app.process import start_part
from retrier.app.readiness import ReadinessBoard
from tests.support.told import Told


def fail() -> None:
    raise RuntimeError("card 4711")


def test_a_part_that_ends_by_an_exception_is_told() -> None:
    told = Told()

    start_part("processor", fail, ReadinessBoard(), told.tell).join()

    ((event, fields),) = told.events
    assert (event, fields["part"]) == ("service.part_failed", "processor")


def test_a_part_that_ends_by_an_exception_is_not_ready() -> None:
    board = ReadinessBoard()

    start_part("processor", fail, board, Told().tell).join()

    assert board.read() == {"processor": (False, "ended by RuntimeError")}


def test_a_part_that_ends_as_it_should_is_not_told() -> None:
    told = Told()

    start_part("processor", lambda: None, ReadinessBoard(), told.tell).join()

    assert told.names == []
