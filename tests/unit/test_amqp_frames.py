"""How frames become methods and messages."""

from types import SimpleNamespace

import pytest
from amqp import spec
from amqp.exceptions import UnexpectedFrame

from retrier.transport.rabbitmq.library import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    FrameHandler,
    RawMessage,
    read_ack,
    read_deliver,
)

DELIVER = bytes([0, 60, 0, 60])
ACK = bytes([0, 60, 0, 80])


def header(size: int, properties: bytes = b"\x00\x00") -> bytes:
    return b"\x00\x3c\x00\x00" + size.to_bytes(8) + properties


class Told:
    """Notes what the frames amounted to."""

    def __init__(self) -> None:
        self.methods: list[tuple[int, tuple[int, int]]] = []
        self.messages: list[RawMessage] = []
        self.connection = SimpleNamespace(bytes_recv=0)
        self.handle = FrameHandler(self.connection, self.note)

    def note(
        self, channel: int, method: tuple[int, int], _args: bytes, message: RawMessage | None
    ) -> None:
        self.methods.append((channel, method))
        if message is not None:
            self.messages.append(message)


def test_a_method_without_content_is_complete_at_once() -> None:
    told = Told()

    assert told.handle((METHOD, 1, ACK)) is True
    assert told.methods == [(1, spec.Basic.Ack)]


def test_a_message_is_complete_with_its_last_body_frame() -> None:
    told = Told()
    frames = [(METHOD, 1, DELIVER), (HEADER, 1, header(5)), (BODY, 1, b"abc"), (BODY, 1, b"de")]

    completed = [told.handle(frame) for frame in frames]

    assert completed == [False, False, False, True]
    assert [message.body for message in told.messages] == [b"abcde"]


def test_a_message_without_a_body_is_complete_with_its_header() -> None:
    told = Told()
    told.handle((METHOD, 1, DELIVER))

    assert told.handle((HEADER, 1, header(0, b"what no parser reads"))) is True
    assert (told.messages[0].raw, told.messages[0].body) == (b"what no parser reads", b"")


def test_a_message_of_another_channel_may_come_between() -> None:
    told = Told()
    told.handle((METHOD, 1, DELIVER))
    told.handle((METHOD, 2, DELIVER))
    told.handle((HEADER, 2, header(0)))
    told.handle((HEADER, 1, header(0)))

    assert [channel for channel, _ in told.methods] == [2, 1]


def test_a_heartbeat_completes_nothing_but_counts_as_life() -> None:
    told = Told()

    assert told.handle((HEARTBEAT, 0, b"")) is False
    assert told.connection.bytes_recv == 1


@pytest.mark.parametrize(
    "frames",
    [
        [(HEADER, 1, header(0))],
        [(BODY, 1, b"x")],
        [(METHOD, 1, DELIVER), (METHOD, 1, ACK)],
        [(9, 1, b"")],
    ],
    ids=["a header of nothing", "a body of nothing", "a method within a message", "a new kind"],
)
def test_a_frame_out_of_place_is_an_error(frames: list[tuple[int, int, bytes]]) -> None:
    told = Told()

    with pytest.raises(UnexpectedFrame):
        [told.handle(frame) for frame in frames]


def test_methods_that_somebody_takes_do_not_reach_the_library() -> None:
    told, taken = Told(), []
    told.handle.give(spec.Basic.Ack, lambda *given: taken.append(given))

    assert told.handle((METHOD, 1, ACK)) is True
    assert (taken, told.methods) == ([(ACK, b"", b"")], [])


def test_somebody_who_takes_deliveries_gets_properties_and_body() -> None:
    told, taken = Told(), []
    told.handle.give(spec.Basic.Deliver, lambda *given: taken.append(given))
    for frame in [(METHOD, 1, DELIVER), (HEADER, 1, header(2, b"raw")), (BODY, 1, b"ab")]:
        told.handle(frame)

    assert (taken, told.messages) == ([(DELIVER, b"raw", b"ab")], [])


def test_a_delivery_is_read_behind_its_consumer_tag() -> None:
    arguments = DELIVER + b"\x03tag" + (7).to_bytes(8) + b"\x01" + b"\x00\x01q"

    assert read_deliver(arguments) == (7, True, "")


@pytest.mark.parametrize(("key", "read"), [(b"", ""), (b"\xc3\xa4", "ä"), (b"q" * 255, "q" * 255)])
def test_a_delivery_by_an_exchange_has_its_key(key: bytes, read: str) -> None:
    by_exchange = b"\x03DLX" + bytes([len(key)]) + key

    arguments = DELIVER + b"\x00" + (7).to_bytes(8) + b"\x00" + by_exchange

    assert read_deliver(arguments) == (7, False, read)


def test_an_acknowledgement_is_read() -> None:
    assert read_ack(ACK + (9).to_bytes(8) + b"\x00") == (9, False)
