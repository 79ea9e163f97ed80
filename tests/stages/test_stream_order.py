"""The order of a stream is that of sending: over redirects, and over crashes."""

import pytest

from retrier.domain import headers
from retrier.domain.redirects import redirect_id
from retrier.store.engine.database import Database
from retrier.store.verbs.redirects import create_redirect, delete_redirect
from tests.support.bench import QUEUE, Killed
from tests.support.breaking import OTHER, Breakdown
from tests.support.streams import fail_in_stream, look_now


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
