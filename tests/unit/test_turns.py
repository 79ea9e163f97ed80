"""Rules and queues take turns in what is sent of what is due."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from retrier.domain.turns import DueMessage, take_turns

AT = datetime(2026, 1, 1, tzinfo=UTC)


def of(source: int, times: Iterable[int], rule: str = "rest", queue: str = "") -> list[DueMessage]:
    """Return messages of one source, due at these seconds; their numbers tell both."""
    return [
        DueMessage(
            number=1000 * source + second,
            failure_seq=1000 * source + second,
            body_size=1,
            retry_at=AT + timedelta(seconds=second),
            source=source,
            turn=(rule, queue or f"queue {source}"),
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


class TestWhetherMoreIsDue:
    def test_is_not_known_of_what_was_not_looked_at(self) -> None:
        assert not take_turns(of(1, [1, 2]), 2, 9).are_all

    def test_is_known_of_what_was_seen_whole(self) -> None:
        assert take_turns(of(1, [1, 2]), 3, 9).are_all

    def test_is_so_if_not_all_go(self) -> None:
        assert not take_turns(of(1, [1, 2]), 3, 1).are_all
