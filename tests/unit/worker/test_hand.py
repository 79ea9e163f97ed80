"""What a hand decides."""

import pytest

from retrier.domain.wire import Delivery, Properties
from retrier.worker.hand import (
    Await,
    CalmDown,
    Cease,
    Decision,
    Hand,
    Held,
    Leave,
    Mood,
    Prove,
    PutBack,
    Start,
    Take,
)
from retrier.worker.handlers import make_handler


def handle(_body: bytes) -> None:
    """Handle a message."""


HANDLER = make_handler("orders", handle, None)
TAKING, PAUSED = Mood(), Mood(paused=True)
STOPPING = Mood(stopping=True)
OVERDUE = Mood(stopping=True, overdue=True)


def held(crashes: int = 0, retry_id: str | None = None, stream: str | None = None) -> Held:
    headers = {} if stream is None else {"Retrier.Stream": stream}
    return Held(
        source=None,
        handler=HANDLER,
        delivery=Delivery(tag=1, queue="orders", raw=b"", body=b"", redelivered=False),
        properties=Properties(headers=headers, fields={}),
        crashes=crashes,
        retry_id=retry_id,
    )


def hand_of(*several: Held, room: int = 10, threads: int = 1, streams: bool = False) -> Hand:
    """Return a hand that takes messages as fast as it can, and has these."""
    hand = Hand(room, threads, hold_streams=streams)
    hand.open(0, expects_suspects=False)
    hand.calm_down(last=True)
    for each in several:
        hand.receive(each)
    return hand


def decide(hand: Hand, mood: Mood = TAKING, now: float = 0) -> Decision:
    return hand.decide(now, mood)


def test_messages_are_started_in_their_order_one_for_each_free_thread() -> None:
    first, second, third = held(), held(), held()

    assert decide(hand_of(first, second, third, threads=2)) == Start([first, second])


def test_more_is_taken_while_there_is_room() -> None:
    hand = hand_of(held(), room=2)
    assert decide(hand_of()) == Take(idle=True)

    hand.start(hand.waiting[0], now=0)
    assert decide(hand) == Take(idle=False)
    hand.receive(held())
    assert decide(hand) == Await()


def test_a_suspect_is_started_when_everything_else_is_settled_and_the_broker_has_read_it() -> None:
    # Given a suspect with neighbours, one of which is being handled
    running, suspect, other, neighbour = held(), held(crashes=1), held(crashes=2), held()
    hand = hand_of(running, suspect, other, neighbour, threads=2)
    hand.start(running, now=0)

    # Then no more is taken, and what is not started goes back, the other suspect as well
    assert decide(hand) == Cease()
    hand.cease()
    assert decide(hand) == PutBack([other, neighbour])
    for each in (other, neighbour):
        hand.put_back(each)
        hand.unsettle()
    hand.settle(1)
    assert decide(hand) == Await()

    # When all is confirmed and acknowledged, the suspect is started, and alone
    assert hand.end(running)
    hand.unsettle()
    hand.settle(1)
    assert decide(hand) == Await()
    hand.settle(1)
    assert decide(hand) == Prove()
    hand.prove()
    assert decide(hand) == Start([suspect])
    hand.start(suspect, now=0)
    assert decide(hand) == Await()

    # And when that is settled, nothing is left for these connections
    assert hand.end(suspect)
    assert decide(hand) == Leave()


def test_where_only_one_message_is_in_hand_a_suspect_has_no_neighbours() -> None:
    suspect = held(crashes=1)

    assert decide(hand_of(suspect, room=1)) == Start([suspect])


def test_at_first_one_message_at_a_time_is_taken_until_nothing_comes_back() -> None:
    hand = Hand(10, 1)
    hand.open(0, expects_suspects=False)
    suspect = held(crashes=1)
    assert decide(hand) == Take(idle=True)

    # When one came back, nothing is taken beside it, and many must follow that did not
    hand.receive(suspect)
    hand.note_arrivals(1, 0, clean=False)
    assert decide(hand) == Start([suspect])
    hand.start(suspect, now=0)
    assert decide(hand) == Await()
    assert hand.end(suspect)
    hand.note_arrivals(49, 0, clean=True)
    assert decide(hand) == Take(idle=True)
    hand.note_arrivals(1, 0, clean=True)
    assert decide(hand) == CalmDown()


@pytest.mark.parametrize("came", ["nothing", "time"])
def test_it_takes_several_again_when_nothing_is_there_or_after_a_while(came: str) -> None:
    hand = Hand(10, 1)
    hand.open(0, expects_suspects=True)
    if came == "nothing":
        hand.note_arrivals(0, 0, clean=True)

    assert decide(hand, now=0 if came == "nothing" else 3) == CalmDown()


def test_two_copies_of_one_retry_are_never_handled_at_a_time() -> None:
    first, copy, other = held(retry_id="a"), held(retry_id="a"), held(retry_id="b")
    hand = hand_of(first, copy, other, threads=3)

    assert decide(hand) == Start([first, other])
    hand.start(first, now=0)
    assert decide(hand) == Start([other])


def test_what_has_to_wait_is_not_started_before_its_time() -> None:
    late = held(retry_id="a")
    late.not_before = 5.0
    hand = hand_of(late)

    assert decide(hand, now=4.9) == Take(idle=False)
    assert decide(hand, now=5.0) == Start([late])


def test_what_is_too_early_goes_to_the_tail_after_a_moment() -> None:
    early = held()
    early.timeouts, early.not_before, early.seen_until = 1, 60.0, 0.5
    hand = hand_of(early)

    assert decide(hand, now=0.4) == Take(idle=False)
    assert decide(hand, now=0.5) == PutBack([early])


def test_a_pause_and_a_stop_put_back_what_is_not_started() -> None:
    for mood in (PAUSED, STOPPING):
        hand = hand_of(held(), held(crashes=1))
        several = list(hand.waiting)
        assert decide(hand, mood) == Cease()
        hand.cease()
        assert decide(hand, mood) == PutBack(several)


def test_the_only_message_that_may_be_in_hand_is_handled_before_a_stop_to_keep_its_place() -> None:
    only = held()
    hand = hand_of(only, room=1)
    hand.cease()

    assert decide(hand, STOPPING) == Start([only])
    assert decide(hand, OVERDUE) == PutBack([only])
    assert decide(hand, Mood(stopping=True, paused=True)) == PutBack([only])


def test_a_message_of_a_stream_stays_in_hand_during_a_pause() -> None:
    member = held(stream="s")
    hand = hand_of(member, room=1, streams=True)

    assert decide(hand, PAUSED) == Await()
    assert decide(hand) == Start([member])


def test_a_message_of_a_stream_is_handled_before_a_stop_if_there_is_time() -> None:
    member, other = held(stream="s"), held()
    hand = hand_of(member, other, streams=True)
    hand.cease()

    assert decide(hand, STOPPING) == PutBack([other])
    hand.put_back(other)
    assert decide(hand, STOPPING) == Start([member])
    assert decide(hand, OVERDUE) == Leave()


def test_of_what_a_breaker_tries_only_one_is_in_work() -> None:
    first, second = held(), held()
    hand = hand_of(first, second, threads=2)

    assert decide(hand, Mood(trying=True)) == Start([first])
    hand.start(first, now=0)
    assert decide(hand, Mood(trying=True)) == Await()
