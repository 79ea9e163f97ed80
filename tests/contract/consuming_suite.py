"""What every transport's consumer promises."""

import sys
from collections.abc import Callable
from subprocess import PIPE, Popen
from time import monotonic

import pytest

from retrier.domain.wire import Confirmed
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Publisher, Queues, Transport
from tests.contract.transport_fixtures import Consume, TransportFixtures, need, nothing
from tests.support.project import ROOT
from tests.support.receiving import SILENCE, bodies, receive
from tests.support.waiting import wait_until


class ConsumingSuite(TransportFixtures):
    """Receiving, acknowledging, losing the connection."""

    def test_names_the_queue_and_marks_a_first_delivery_as_such(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish([self.message(queue, b"x")], nothing)

        (delivery,) = receive(consume(queue), 1)

        assert (delivery.queue, delivery.redelivered) == (queue, False)

    def test_what_was_just_received_is_surely_its_own(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish([self.message(queue)], nothing)
        consumer = consume(queue)

        receive(consumer, 1)

        assert consumer.surely_holds()

    def test_waits_for_the_first_message_and_no_longer_than_told(
        self, consume: Consume, queue: str
    ) -> None:
        consumer = consume(queue)
        start = monotonic()

        received = consumer.receive(10, timeout=SILENCE)

        assert received == []
        assert SILENCE <= monotonic() - start < SILENCE + 15

    def test_does_not_wait_for_more_once_there_is_one(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        consumer = consume(queue)
        publisher.publish([self.message(queue)], nothing)
        start = monotonic()

        received = consumer.receive(10, timeout=60)

        assert len(received) == 1
        assert monotonic() - start < 10

    def test_hands_out_no_more_than_the_limit_and_the_rest_later(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 5), nothing)
        consumer = consume(queue)

        first = receive(consumer, 2)
        second = receive(consumer, 3)

        assert sorted(bodies(first + second)) == [b"0", b"1", b"2", b"3", b"4"]

    @pytest.mark.parametrize(
        "acked",
        [range(6), [0, 1, 2], [3, 4, 5], [0, 1, 4], [1, 3], [5, 0]],
        ids=["all", "the first", "the last", "a prefix and one", "some", "out of order"],
    )
    def test_what_is_acknowledged_is_gone_and_only_that(
        self, publisher: Publisher, consume: Consume, queue: str, acked: list[int]
    ) -> None:
        publisher.publish(self.numbered(queue, 6), nothing)
        consumer = consume(queue)
        received = receive(consumer, 6)

        consumer.ack([received[place] for place in acked])
        consumer.close()

        rest = {delivery.body for delivery in received} - {received[p].body for p in acked}
        again = consume(queue)
        assert {delivery.body for delivery in receive(again, len(rest))} == rest
        assert again.receive(1, SILENCE) == []

    def test_acknowledges_before_later_messages_are_handed_out(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 3), nothing)
        consumer = consume(queue)
        first = receive(consumer, 1)

        consumer.ack(first)
        consumer.close()

        assert len(receive(consume(queue), 2)) == 2

    @pytest.mark.parametrize("prefetch", [10, 15, 1000])
    def test_closing_gives_everything_back_in_front_in_order_and_marked(
        self,
        transport: Transport,
        publisher: Publisher,
        consume: Consume,
        queue: str,
        prefetch: int,
    ) -> None:
        need(transport, "ordered")
        publisher.publish(self.numbered(queue, 20), nothing)
        consumer = consume(queue, prefetch)
        receive(consumer, 10)

        consumer.close()

        again = receive(consume(queue), 20)
        assert bodies(again) == [b"%d" % number for number in range(20)]
        assert all(delivery.redelivered for delivery in again[:10])

    def test_a_killed_process_gives_everything_back_in_front_in_order_and_marked(
        self, transport: Transport, publisher: Publisher, consume: Consume, queue: str, url: str
    ) -> None:
        need(transport, "ordered")
        publisher.publish(self.numbered(queue, 20), nothing)
        command = [sys.executable, "-m", "tests.support.holding_consumer", self.factory, url]
        with Popen([*command, queue, "10"], cwd=ROOT, stdin=PIPE, stdout=PIPE) as child:
            assert child.stdout
            assert child.stdout.readline() == b"holding\n"

            child.kill()

        again = receive(consume(queue), 20)
        assert bodies(again) == [b"%d" % number for number in range(20)]
        assert all(delivery.redelivered for delivery in again[:10])

    def test_puts_messages_back_and_marks_them(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 4), nothing)
        consumer = consume(queue)
        received = receive(consumer, 4)

        consumer.put_back(received[:2])
        consumer.ack(received[2:])

        again = receive(consumer, 2)
        assert sorted(bodies(again)) == sorted(bodies(received[:2]))
        assert all(delivery.redelivered for delivery in again)

    def test_takes_no_more_than_the_prefetch_unacknowledged(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 5), nothing)
        consumer = consume(queue, prefetch=2)

        received = receive(consumer, 2)

        assert consumer.receive(10, SILENCE) == []
        consumer.ack(received)
        assert len(receive(consumer, 2)) == 2

    def test_widening_lets_more_in_and_keeps_what_was_handed_out(
        self, transport: Transport, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        need(transport, "ordered")
        publisher.publish(self.numbered(queue, 12), nothing)
        consumer = consume(queue, prefetch=1)
        received = receive(consumer, 1)

        received += consumer.cease()
        consumer.resume(2)
        received += receive(consumer, 2)
        received += consumer.cease()
        consumer.resume(9)
        received += receive(consumer, 9)
        consumer.ack(received)
        consumer.close()

        assert bodies(received) == [b"%d" % number for number in range(12)]
        assert consume(queue).receive(1, SILENCE) == []

    def test_a_deleted_queue_ends_its_consumer(
        self, consume: Consume, queues: Queues, queue: str
    ) -> None:
        consumer = consume(queue)
        queues.delete(queue)

        with pytest.raises(BrokerUnavailable):
            receive(consumer, 1)

    def test_a_missing_queue_has_no_consumer(
        self, transport: Transport, queue_name: Callable[..., str]
    ) -> None:
        need(transport, "existence")

        with pytest.raises(BrokerUnavailable):
            transport.consumer(queue_name("missing"), 1)

    def test_a_closed_consumer_says_so(self, consume: Consume, queue: str) -> None:
        consumer = consume(queue)

        consumer.close()
        consumer.close()

        with pytest.raises(BrokerUnavailable):
            consumer.receive(1, 0)

    def test_a_staging_queue_has_one_consumer_at_a_time(
        self, transport: Transport, publisher: Publisher, consume: Consume, staging: str
    ) -> None:
        need(transport, "single_consumer")
        first, second = consume(staging), consume(staging)

        publisher.publish(self.numbered(staging, 3), nothing)

        assert len(receive(first, 3)) == 3
        assert second.receive(1, SILENCE) == []

    def test_a_staging_queue_is_handed_over_when_its_consumer_closes(
        self, transport: Transport, publisher: Publisher, consume: Consume, staging: str
    ) -> None:
        need(transport, "single_consumer")
        first, second = consume(staging), consume(staging)
        publisher.publish(self.numbered(staging, 3), nothing)
        receive(first, 2)

        first.close()
        publisher.publish([self.message(staging, b"later")], nothing)

        assert bodies(receive(second, 4)) == [b"0", b"1", b"2", b"later"]

    def test_widening_a_consumer_of_a_staging_queue_works_too(
        self, publisher: Publisher, consume: Consume, staging: str
    ) -> None:
        publisher.publish(self.numbered(staging, 3), nothing)
        consumer = consume(staging, prefetch=1)
        receive(consumer, 1)

        consumer.cease()
        consumer.resume(2)

        assert bodies(receive(consumer, 2)) == [b"1", b"2"]

    def test_receives_what_comes_later(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        consumer = consume(queue)
        consumer.receive(1, 0)
        publisher.publish([self.message(queue, b"later")], nothing)

        wait_until(lambda: bodies(consumer.receive(1, 0)) == [b"later"], 30)

    def test_takes_no_messages_while_it_rests_and_goes_on_afterwards(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        consumer = consume(queue)
        if not consumer.rest():
            consumer = consume(queue)
        publisher.publish([self.message(queue, b"x")], nothing)
        other = consume(queue)
        taken_by_another = bodies(receive(other, 1))
        other.close()

        consumer.resume(5)

        assert (taken_by_another, bodies(receive(consumer, 1))) == ([b"x"], [b"x"])

    def test_does_not_rest_with_something_unacknowledged(
        self, publisher: Publisher, consume: Consume, queue: str
    ) -> None:
        publisher.publish([self.message(queue, b"x")], nothing)
        consumer = consume(queue)
        receive(consumer, 1)

        assert not consumer.rest()

    def test_one_whose_queue_is_gone_cannot_go_on(
        self, consume: Consume, queues: Queues, queue: str
    ) -> None:
        consumer = consume(queue)
        consumer.rest()
        queues.delete(queue)

        with pytest.raises(BrokerUnavailable):
            consumer.resume(5) or consumer.receive(1, 0)

    def test_a_sign_of_life_does_no_harm(
        self, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        publisher.keep_alive()
        queues.keep_alive()

        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)
        assert queues.depth(queue) == 1
