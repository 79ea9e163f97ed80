"""What every transport's publisher promises."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from retrier.domain.headers import RETRY_ID
from retrier.domain.wire import Confirmed, Edit, Outgoing, Returned
from retrier.transport.seam import Publisher, Queues, Transport
from tests.contract.transport_fixtures import Consume, TransportFixtures, need, nothing
from tests.support.receiving import SILENCE, bodies, receive


class PublishingSuite(TransportFixtures):
    """Publishing windows."""

    def test_confirms_what_the_broker_has(
        self, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        outcomes = publisher.publish(self.numbered(queue, 3), nothing)

        assert outcomes == (Confirmed(), Confirmed(), Confirmed())
        assert queues.depth(queue) == 3

    def test_keeps_the_order_of_a_window_and_of_windows(
        self, transport: Transport, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        need(transport, "ordered")
        messages = self.numbered(queue, 250)

        publisher.publish(messages[:200], nothing)
        publisher.publish(messages[200:], nothing)

        received = receive(consume(queue), 250)
        assert bodies(received) == [message.body for message in messages]

    def test_an_empty_window_has_no_outcomes(self, publisher: Publisher) -> None:
        assert publisher.publish([], nothing) == ()

    def test_takes_messages_as_they_are_made(
        self, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        made = (message for message in self.numbered(queue, 250))

        outcomes = publisher.publish(made, nothing)

        assert outcomes == (Confirmed(),) * 250
        assert queues.depth(queue) == 250

    def test_lets_the_caller_work_once_when_all_is_written(
        self, publisher: Publisher, queue: str
    ) -> None:
        done: list[str] = []
        made = (done.append("made") or message for message in self.numbered(queue, 2))

        publisher.publish(made, nothing, lambda: done.append("worked"))

        assert done == ["made", "made", "worked"]

    def test_what_fails_while_messages_are_made_goes_through_and_spoils_nothing(
        self, publisher: Publisher, queue: str
    ) -> None:
        def break_off() -> Iterator[Outgoing]:
            yield self.message(queue)
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            publisher.publish(break_off(), nothing)

        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)

    def test_returns_what_has_no_queue_and_says_why(
        self, transport: Transport, publisher: Publisher, queue_name: Callable[..., str]
    ) -> None:
        need(transport, "returns")

        (outcome,) = publisher.publish([self.message(queue_name("missing"))], nothing)

        assert isinstance(outcome, Returned)
        assert outcome.reason

    def test_tells_of_each_message_of_a_window_what_became_of_it(
        self,
        transport: Transport,
        publisher: Publisher,
        queue: str,
        queue_name: Callable[..., str],
    ) -> None:
        need(transport, "returns")
        targets = [queue, queue_name("missing"), queue_name("gone")]
        window = [self.message(targets[number * 7 % 3], b"%d" % number) for number in range(60)]

        outcomes = publisher.publish(window, nothing)

        arrived = {m.body for m, o in zip(window, outcomes, strict=True) if o == Confirmed()}
        returned = {m.body for m, o in zip(window, outcomes, strict=True) if type(o) is Returned}
        assert arrived == {message.body for message in window if message.queue == queue}
        assert returned == {message.body for message in window if message.queue != queue}

    def test_goes_on_after_a_return(
        self,
        transport: Transport,
        publisher: Publisher,
        queue: str,
        queue_name: Callable[..., str],
    ) -> None:
        need(transport, "returns")
        publisher.publish([self.message(queue_name("missing"))], nothing)

        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)

    def test_passes_every_byte_on_also_when_forwarded_again(
        self,
        publisher: Publisher,
        consume: Consume,
        new_queue: Callable[[], str],
        samples: Mapping[str, tuple[bytes, bytes]],
        hands_out: Callable[[bytes], bytes],
        as_sent: Callable[[bytes], bytes],
    ) -> None:
        first, second = new_queue(), new_queue()
        window = [Outgoing(queue=first, raw=raw, body=body) for raw, body in samples.values()]

        publisher.publish(window, nothing)
        received = receive(consume(first), len(window))
        publisher.publish(
            [Outgoing(queue=second, raw=d.raw, body=d.body) for d in received], nothing
        )
        again = receive(consume(second), len(window))

        # Not in their order: some brokers hand out first what has a priority.
        expected = sorted((hands_out(raw), body) for raw, body in samples.values())
        assert sorted((as_sent(d.raw), d.body) for d in received) == expected
        assert sorted((as_sent(d.raw), d.body) for d in again) == expected

    def test_an_edit_arrives_and_leaves_the_rest_alone(
        self,
        transport: Transport,
        publisher: Publisher,
        consume: Consume,
        queue: str,
        as_sent: Callable[[bytes], bytes],
    ) -> None:
        stamped = transport.codec.edit(self.no_properties, Edit(set_headers={RETRY_ID: "r-1"}))

        publisher.publish([Outgoing(queue=queue, raw=stamped, body=b"body")], nothing)

        (delivery,) = receive(consume(queue), 1)
        read = transport.codec.read(as_sent(delivery.raw))
        assert (read.headers, read.fields) == ({RETRY_ID: "r-1"}, {})

    def test_sends_one_probe_ahead_of_the_first_window(
        self, transport: Transport, consume: Consume, queue: str, staging: str
    ) -> None:
        publisher = transport.publisher(self.message(staging, b"probe"))

        publisher.publish([self.message(queue)], nothing)
        publisher.publish([self.message(queue)], nothing)
        publisher.close()

        consumer = consume(staging)
        (probe,) = receive(consumer, 1)
        assert probe.body == b"probe"
        assert consumer.receive(1, SILENCE) == []

    def test_closing_a_publisher_twice_is_no_error(self, transport: Transport) -> None:
        publisher = transport.publisher()

        publisher.close()
        publisher.close()
