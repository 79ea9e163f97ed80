"""Rules and queues take turns in what is sent of what is due."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from retrier.domain.schedule import DueMessage, take_turns

AT = datetime(2026, 1, 1, tzinfo=UTC)


def of(
    source: int,
    times: Iterable[int],
    rule: str = "rest",
    queue: str = "",
    *,
    comes_back: bool = False,
) -> list[DueMessage]:
    """Return messages of one source, due at these seconds; their numbers tell both."""
    return [
        DueMessage(
            number=1000 * source + second,
            failure_seq=1000 * source + second,
            body_size=1,
            retry_at=AT + timedelta(seconds=second),
            source=source,
            turn=(rule, queue or f"queue {source}"),
            comes_back=comes_back,
        )
        for second in times
    ]


def taken(found: Sequence[DueMessage], depth: int, most: int) -> list[int]:
    return [each.number for each in take_turns(found, depth, most).messages]


class TestQueues:
    def test_take_turns_and_who_is_due_for_longest_begins(self) -> None:
        found = [*of(1, [5, 6, 7]), *of(2, [1, 2])]

        assert taken(found, 9, 9) == [2001, 1005, 2002, 1006, 1007]

    def test_with_much_leave_room_for_those_with_little(self) -> None:
        found = [*of(1, range(50)), *of(2, [90, 91])]

        assert {2090, 2091} <= set(taken(found, 50, 10))

    def test_keep_the_order_of_their_times_whatever_the_cause(self) -> None:
        found = [*of(1, [1, 4], queue="shop"), *of(2, [2, 3], queue="shop")]

        assert taken(found, 9, 9) == [1001, 2002, 2003, 1004]

    def test_let_nothing_overtake_what_was_not_looked_at(self) -> None:
        # Of the first cause there may be more that are due at 2.
        found = [*of(1, [1, 2], queue="shop"), *of(2, [2, 3], queue="shop")]

        assert taken(found, 2, 9) == [1001, 1002]

    def test_of_two_rules_are_two_turns(self) -> None:
        found = [*of(1, [1, 2], "slow", "shop"), *of(2, [8, 9], "quick", "shop")]

        assert taken(found, 9, 3) == [1001, 2008, 1002]


class TestWhereNotAllHaveRoom:
    """Ten queues with messages that have been due for long, and one more."""

    CROWD = tuple(each for source in range(10) for each in of(source, range(source, 60, 10)))

    def test_what_has_just_become_due_goes_at_once(self) -> None:
        assert 99_100 in taken([*self.CROWD, *of(99, [100])], 9, 4)

    def test_so_does_the_first_of_a_few(self) -> None:
        assert 99_100 in taken([*self.CROWD, *of(99, range(100, 104))], 9, 4)

    def test_so_does_the_first_of_as_many_as_were_looked_at(self) -> None:
        assert 99_100 in taken([*self.CROWD, *of(99, range(100, 110))], 3, 4)

    def test_half_is_left_to_those_that_wait_for_longest(self) -> None:
        just_now = [each for source in range(80, 90) for each in of(source, [100])]

        assert {0, 1001} < set(taken([*self.CROWD, *just_now], 9, 4))

    def test_of_queues_with_one_message_each_the_longest_due_go(self) -> None:
        found = [each for source in range(10) for each in of(source, [source])]

        assert taken(found, 9, 4) == [0, 1001, 2002, 3003]

    def test_a_queue_keeps_the_order_of_its_times(self) -> None:
        going = taken([*self.CROWD, *of(99, range(100, 104))], 9, 15)

        assert [each for each in going if each > 99_000] == [99_100, 99_101]


class TestQueuesWhoseRetriesComeBack:
    CROWD = tuple(
        each for source in range(10) for each in of(source, range(source, 60, 10), comes_back=True)
    )

    def test_leave_half_of_the_room_to_others(self) -> None:
        going = taken([*self.CROWD, *of(99, range(100, 110))], 20, 8)

        assert [each for each in going if each > 99_000] == [99_100, 99_101, 99_102, 99_103]

    def test_leave_no_more_than_others_need(self) -> None:
        going = taken([*self.CROWD, *of(99, [100, 101])], 20, 8)

        assert len(going) == 8
        assert {99_100, 99_101} < set(going)

    def test_have_half_of_the_room_whatever_else_is_due(self) -> None:
        others = [each for source in range(80, 90) for each in of(source, range(9))]

        going = taken([*of(1, [50, 51, 52], comes_back=True), *others], 20, 4)

        assert len(going) == 4
        assert {1050, 1051} < set(going)

    def test_have_their_turn_by_time_where_there_is_room_for_one(self) -> None:
        assert taken([*of(1, [50], comes_back=True), *of(2, [51])], 9, 1) == [1050]
        assert taken([*of(1, [52], comes_back=True), *of(2, [51])], 9, 1) == [2051]

    def test_take_all_that_is_left(self) -> None:
        assert len(taken(self.CROWD, 20, 60)) == 60

    def test_keep_the_order_of_their_times(self) -> None:
        mixed = [*of(1, [1, 3], queue="shop", comes_back=True), *of(2, [2, 4], queue="shop")]

        assert taken(mixed, 9, 3) == [1001, 2002, 1003]


class TestWhetherMoreIsDue:
    def test_is_not_known_of_what_was_not_looked_at(self) -> None:
        assert not take_turns(of(1, [1, 2]), 2, 9).are_all

    def test_is_known_of_what_was_seen_whole(self) -> None:
        assert take_turns(of(1, [1, 2]), 3, 9).are_all

    def test_is_so_if_not_all_go(self) -> None:
        assert not take_turns(of(1, [1, 2]), 3, 1).are_all
