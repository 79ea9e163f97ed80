"""How acknowledgements and returns are attributed to the messages of a window."""

from retrier.domain.wire import ChannelClosed, Confirmed, Outgoing, Refused, Returned, Unknown
from retrier.transport.rabbitmq.publisher import Window


def message(queue: str = "q", raw: bytes = b"\x00\x00", body: bytes = b"") -> Outgoing:
    return Outgoing(queue=queue, raw=raw, body=body)


def sent(*messages: Outgoing, first_tag: int = 1) -> Window:
    window = Window()
    window.add(messages)
    for place in range(len(messages)):
        window.sent(place, first_tag + place)
    return window


def test_is_settled_when_every_message_is() -> None:
    window = sent(message(), message())

    window.confirm(2, multiple=False)
    half = window.settled
    window.confirm(1, multiple=False)

    assert (half, window.settled) == (False, True)


def test_names_the_queues_of_what_is_not_settled() -> None:
    window = sent(message("a"), message("b"), message("a"))
    before = window.open_queues

    window.confirm(2, multiple=True)

    assert (before, window.open_queues) == ({"a", "b"}, {"a"})


def test_confirms_up_to_a_tag() -> None:
    window = sent(message(), message(), message(), first_tag=7)

    window.confirm(8, multiple=True)
    window.refuse(9, "full", multiple=True)

    assert window.outcomes == (Confirmed(), Confirmed(), Refused("full"))


def test_confirms_one_tag_and_not_those_before_it() -> None:
    window = sent(message(), message())

    window.confirm(2, multiple=False)
    window.refuse(1, "full", multiple=False)

    assert window.outcomes == (Refused("full"), Confirmed())


def test_a_tag_of_an_earlier_window_settles_nothing() -> None:
    window = sent(message(), first_tag=5)

    window.confirm(4, multiple=True)
    window.confirm(3, multiple=False)

    assert not window.settled


def test_a_returned_message_stays_returned_when_it_is_acknowledged() -> None:
    window = sent(message())

    window.give_back("q", b"\x00\x00", b"", "312 NO_ROUTE")
    window.confirm(1, multiple=False)

    assert window.outcomes == (Returned("312 NO_ROUTE"),)


def test_a_return_finds_its_message_by_queue_properties_and_body() -> None:
    window = sent(
        message("other", body=b"x"),
        message(body=b"y"),
        message(raw=b"\x00\x01", body=b"x"),
        message(body=b"x"),
    )

    window.give_back("q", b"\x00\x00", b"x", "312 NO_ROUTE")
    window.end(Unknown("lost"))

    assert [type(outcome) for outcome in window.outcomes] == [Unknown, Unknown, Unknown, Returned]


def test_equal_messages_are_returned_one_after_the_other() -> None:
    window = sent(message(), message(), message())

    window.give_back("q", b"\x00\x00", b"", "312 NO_ROUTE")
    window.give_back("q", b"\x00\x00", b"", "312 NO_ROUTE")
    window.confirm(3, multiple=True)

    assert [type(outcome) for outcome in window.outcomes] == [Returned, Returned, Confirmed]


def test_a_return_of_changed_properties_is_laid_to_a_message_to_that_queue() -> None:
    window = sent(message("other"), message("q", raw=b"\x00\x01"))

    window.give_back("q", b"\x00\x02", b"", "312 NO_ROUTE")
    window.confirm(2, multiple=True)

    assert window.outcomes == (Confirmed(), Returned("312 NO_ROUTE"))


def test_a_return_of_what_was_never_sent_settles_nothing() -> None:
    window = sent(message())

    window.give_back("elsewhere", b"\x00\x00", b"", "312 NO_ROUTE")

    assert not window.settled


def test_what_was_never_written_can_be_declined() -> None:
    window = Window()
    window.add([message(), message()])

    window.decline(0, "too large")
    window.sent(1, 1)
    window.confirm(1, multiple=True)

    assert window.outcomes == (Refused("too large", unsendable=True), Confirmed())


def test_the_end_takes_the_unsettled_written_or_not() -> None:
    window = Window()
    window.add([message(), message(), message()])
    window.sent(0, 1)
    window.sent(1, 2)
    window.confirm(1, multiple=False)

    window.end(ChannelClosed("406"))

    assert window.outcomes == (Confirmed(), ChannelClosed("406"), ChannelClosed("406"))


def test_what_is_added_to_a_window_that_has_ended_shares_its_end() -> None:
    window = sent(message())
    window.end(Unknown("reset"))
    window.add([message()])
    assert window.outcomes == (Unknown("reset"), Unknown("reset"))


def test_a_window_that_grows_is_settled_only_with_all_of_it() -> None:
    window = sent(message())
    window.confirm(1, multiple=False)
    window.add([message()])
    assert not window.settled
