"""How soon it is looked at again what streams hold."""

from datetime import timedelta
from itertools import accumulate, repeat

from retrier.domain.streams import LONGEST_LOOK_WAIT, SHORTEST_LOOK_WAIT, wait_for_look

NO_TIME = timedelta(0)


def test_a_stream_that_moves_is_looked_at_after_a_fiftieth_of_a_second() -> None:
    assert timedelta(milliseconds=20) == SHORTEST_LOOK_WAIT


def test_looks_in_vain_become_rarer_until_there_is_one_every_two_seconds() -> None:
    waits = [*accumulate(repeat(NO_TIME, 8), wait_for_look, initial=SHORTEST_LOOK_WAIT)]

    assert waits[:3] == [SHORTEST_LOOK_WAIT, 2 * SHORTEST_LOOK_WAIT, 4 * SHORTEST_LOOK_WAIT]
    assert waits[-2:] == [LONGEST_LOOK_WAIT, LONGEST_LOOK_WAIT]


def test_what_takes_long_is_not_done_all_the_time() -> None:
    took = timedelta(seconds=1)

    assert wait_for_look(SHORTEST_LOOK_WAIT, took) == 5 * took
