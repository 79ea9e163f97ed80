"""Which lines an event makes in the log."""

from retrier.app.log import describe
from retrier.events.event import Event
from retrier.events.processor import RestBackedOff, RestMoved


def names_of(event: Event) -> list[str]:
    return [line.name for line in describe(event)]


def rest_moved(new_batch_id: str | None, size: int) -> RestMoved:
    return RestMoved(
        batch_id="old",
        operation_id="operation",
        new_batch_id=new_batch_id,
        size=size,
        message_count=5,
    )


def rest_backed_off(*, repeated: bool) -> RestBackedOff:
    return RestBackedOff(
        batch_id="b", operation_id="o", reason="it loses copies", repeated=repeated
    )


def test_a_rest_that_moves_is_told_with_its_size() -> None:
    (line,) = describe(rest_moved("new", 3))

    assert line.name == "batch.moved"
    assert str(line.fields["reason"]).startswith("3 of 5 copies did not come back")


def test_nothing_is_told_when_nothing_was_left_to_move() -> None:
    assert names_of(rest_moved(None, 0)) == []


def test_a_batch_that_waits_for_its_copies_is_told_once() -> None:
    told = [names_of(rest_backed_off(repeated=repeated)) for repeated in (False, True, True)]

    assert told == [["batch.backing_off"], [], []]
