"""Which of the messages in hand are started."""

from retrier.domain.wire import Delivery, Properties
from retrier.worker.hand import Hand, Held
from retrier.worker.handlers import make_handler


def handle(_body: bytes) -> None:
    """Handle a message."""


HANDLER = make_handler("orders", handle, None)


def held(crashes: int = 0, retry_id: str | None = None) -> Held:
    return Held(
        source=None,
        handler=HANDLER,
        delivery=Delivery(tag=1, queue="orders", raw=b"", body=b"", redelivered=False),
        properties=Properties(headers={}, fields={}),
        crashes=crashes,
        retry_id=retry_id,
    )


def hand_of(*several: Held) -> Hand:
    hand = Hand(10)
    for each in several:
        hand.add(each)
    return hand


def test_messages_are_started_in_their_order_one_for_each_free_thread() -> None:
    first, second, third = held(), held(), held()

    assert hand_of(first, second, third).choose(2, now=0) == [first, second]


def test_a_suspect_is_started_alone() -> None:
    suspect, innocent = held(crashes=1), held()
    hand = hand_of(suspect, innocent)

    # Given an innocent one beside it, that one goes first
    assert hand.choose(2, now=0) == [innocent]
    hand.start(innocent, now=0)
    assert hand.choose(1, now=0) == []

    # When that is done, the suspect is started, and nothing beside it
    hand.running.remove(innocent)
    assert hand.choose(2, now=0) == [suspect]
    hand.start(suspect, now=0)
    hand.add(held())
    assert hand.choose(1, now=0) == []


def test_two_suspects_are_never_started_together() -> None:
    first, second = held(crashes=1), held(crashes=2)

    assert hand_of(first, second).choose(2, now=0) == [first]


def test_two_copies_of_one_retry_are_never_handled_at_a_time() -> None:
    first, copy, other = held(retry_id="a"), held(retry_id="a"), held(retry_id="b")
    hand = hand_of(first, copy, other)

    assert hand.choose(3, now=0) == [first, other]
    hand.start(first, now=0)
    assert hand.choose(2, now=0) == [other]


def test_what_has_to_wait_is_not_started_before_its_time() -> None:
    late = held()
    late.not_before = 5.0
    hand = hand_of(late)

    assert hand.choose(1, now=4.9) == []
    assert hand.choose(1, now=5.0) == [late]
