"""The order of a stream is that of sending: over redirects, and over crashes."""

import pytest

from retrier.domain import headers
from retrier.domain.redirects import redirect_id
from retrier.domain.streams import read_position
from retrier.store.engine.database import Database
from retrier.store.message_lists import PageRequest
from retrier.store.operation_lists import find_operation
from retrier.store.redirects import create_redirect, delete_redirect
from retrier.store.streams import find_stream, list_streams
from tests.support.bench import QUEUE, Killed
from tests.support.breaking import OTHER, Breakdown
from tests.support.factories import failure, unique_id
from tests.support.streams import ORDER, STREAM, fail_in_stream, look_now, make_strict, release


@pytest.fixture
def bench(database: Database) -> Breakdown:
    return Breakdown(database)


def die_with_the_head_sent(bench: Breakdown) -> list[str]:
    """Let the process die when the head of a stream is on its queue and that is not recorded."""
    ids = fail_in_stream(bench, 3)
    bench.ask_all()
    bench.kill_at("forwarding.published")
    with pytest.raises(Killed):
        bench.work()
    assert bench.sent() == ids[:1]
    return ids


def retry_ids_of(bench: Breakdown) -> set[str]:
    codec = bench.transport.codec
    lying = bench.transport.broker.holds(QUEUE)
    return {codec.read(each.raw).text(headers.RETRY_ID) or "" for each in lying}


def test_a_stream_is_sent_in_order_though_one_of_it_is_redirected(bench: Breakdown) -> None:
    # Given that the head is redirected, and the one behind it is not
    head, follower, _ = fail_in_stream(bench, 3)
    create_redirect(bench.db, QUEUE, OTHER, own_queues=frozenset(), who="ada")
    bench.ask_all()
    bench.work()
    delete_redirect(bench.db, redirect_id(QUEUE), who="ada")
    look_now(bench)
    bench.work()
    assert (bench.sent(OTHER), bench.sent(QUEUE)) == ([head], [])

    bench.confirm(head)
    look_now(bench)
    bench.work()

    assert (bench.sent(OTHER), bench.sent(QUEUE)) == ([head], [follower])


def test_a_head_that_a_crash_sends_twice_is_followed_once_it_is_confirmed(
    bench: Breakdown,
) -> None:
    head, follower, _ = die_with_the_head_sent(bench)

    bench.restart()
    bench.work()
    assert bench.sent() == [head, head]
    assert len(retry_ids_of(bench)) == 1

    bench.confirm(head)
    look_now(bench)
    bench.work()
    assert bench.sent() == [head, head, follower]


def test_a_head_that_is_confirmed_while_the_process_is_dead_comes_at_most_once_more(
    bench: Breakdown,
) -> None:
    # Given a consumer that has handled the head before the next process starts
    head, follower, last = die_with_the_head_sent(bench)
    bench.confirm(head)

    bench.restart()
    bench.work()
    look_now(bench)
    bench.work()
    bench.confirm(follower)
    look_now(bench)
    bench.work()

    sent = bench.sent()
    assert sent.count(head) <= 2
    assert [each for each in sent if each != head] == [follower, last]


def fail_with_places(bench: Breakdown, *places: object) -> list[str]:
    """Let messages of one strict stream fail that state these places; return their ids."""
    return [fail_in_stream(bench, 1, stream_position=read_position(each))[0] for each in places]


def send_all(bench: Breakdown) -> list[str]:
    """Send each message that is not held, and confirm it, until all were sent."""
    bench.ask_all()
    bench.work()
    confirmed: list[str] = []
    while len(bench.sent()) > len(confirmed):
        (newest,) = bench.sent()[len(confirmed) :]
        confirmed.append(newest)
        bench.confirm(newest)
        look_now(bench)
        bench.work()
    return confirmed


def shown_in_order(bench: Breakdown) -> list[str]:
    found = find_stream(bench.db, STREAM, PageRequest())
    assert found is not None
    return [each.unique_message_id for each in found.messages.items]


class TestAPlaceThatTheSenderStates:
    def test_is_kept_though_they_failed_in_another_order(self, bench: Breakdown) -> None:
        tenth, second, first, behind_second = fail_with_places(bench, 10, "2", "-1", "2.5")

        assert send_all(bench) == [first, second, behind_second, tenth]

    def test_may_be_a_time(self, bench: Breakdown) -> None:
        late, early = fail_with_places(bench, "2026-05-04T12:00:00.5Z", "2026-05-04T13:00+02:00")

        assert send_all(bench) == [early, late]

    def test_that_two_have_goes_by_the_order_of_first_failures(self, bench: Breakdown) -> None:
        ids = fail_with_places(bench, 5, 5, 5)

        assert send_all(bench) == ids

    def test_comes_before_those_that_state_none(self, bench: Breakdown) -> None:
        without, other, with_place = fail_with_places(bench, None, "the third", 7)

        assert send_all(bench) == [with_place, without, other]

    def test_is_how_a_stream_is_shown(self, bench: Breakdown) -> None:
        third, first, second = fail_with_places(bench, 3, 1, 2)

        assert shown_in_order(bench) == [first, second, third]
        (listed,) = list_streams(bench.db, PageRequest()).items
        assert (listed.head.unique_message_id, listed.held) == (first, 2)

    def test_says_behind_which_message_another_is_held(self, bench: Breakdown) -> None:
        third, first = fail_with_places(bench, 3, 1)

        asked = bench.ask([third])
        bench.work()

        found = find_operation(bench.db, asked.operation_id)
        assert found is not None
        assert found.skipped[third].startswith(f"held behind {first}")

    def test_is_in_the_way_of_nothing_that_is_released(self, bench: Breakdown) -> None:
        third, first = fail_with_places(bench, 3, 1)
        release(bench.db, third)
        bench.ask([third])

        bench.work()

        assert bench.sent() == [third]
        assert shown_in_order(bench) == [first, third]

    def test_stays_though_a_later_failure_states_another_or_none(self, bench: Breakdown) -> None:
        second, first = fail_with_places(bench, 2, 1)
        bench.ask([first])
        bench.work()

        bench.come_back([first])
        make_strict(bench.db)

        assert shown_in_order(bench) == [first, second]

    def test_is_new_in_a_stream_that_a_later_failure_names(self, bench: Breakdown) -> None:
        moved = failure(queue=QUEUE, stream_id="other", stream_position=read_position(9))
        bench.receive(moved)
        (follower,) = fail_with_places(bench, 2)
        again = failure(
            queue=QUEUE,
            message_id=moved.message_id,
            body=moved.body,
            stream_id=ORDER,
            stream_position=read_position(1),
        )

        bench.receive(again)

        assert shown_in_order(bench) == [unique_id(moved), follower]
