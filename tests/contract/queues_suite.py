"""What every transport's looker at queues promises."""

from collections.abc import Callable

import pytest

from retrier.domain.wire import Confirmed
from retrier.errors import StagingQueueUnusable
from retrier.transport.seam import Publisher, Queues, Transport
from tests.contract.transport_fixtures import Consume, TransportFixtures, need, nothing
from tests.support.receiving import SILENCE, bodies, receive


class QueuesSuite(TransportFixtures):
    """Looking, declaring, purging, deleting."""

    def test_a_missing_queue_has_no_depth(
        self, transport: Transport, queues: Queues, queue_name: Callable[..., str]
    ) -> None:
        need(transport, "existence")

        assert queues.depth(queue_name("missing")) is None

    def test_can_look_again_after_a_missing_queue(
        self, transport: Transport, queues: Queues, queue: str, queue_name: Callable[..., str]
    ) -> None:
        need(transport, "existence")
        queues.depth(queue_name("missing"))

        assert queues.depth(queue) == 0

    def test_looking_does_not_declare(
        self, transport: Transport, queues: Queues, queue_name: Callable[..., str]
    ) -> None:
        need(transport, "existence")
        name = queue_name("missing")

        queues.depth(name)

        assert queues.depth(name) is None

    def test_depth_counts_what_is_ready(
        self, publisher: Publisher, consume: Consume, queues: Queues, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 5), nothing)
        receive(consume(queue, prefetch=2), 2)

        assert queues.depth(queue) == 3

    def test_declares_an_error_queue_that_is_missing(
        self, publisher: Publisher, queues: Queues, queue_name: Callable[..., str]
    ) -> None:
        name = queue_name("error")

        assert queues.declare_error_queue(name) is True
        assert publisher.publish([self.message(name)], nothing) == (Confirmed(),)

    def test_a_queue_may_be_an_error_queue(self, queues: Queues, queue: str) -> None:
        assert queues.why_not_ingestible(queue) is None

    def test_leaves_an_error_queue_that_exists_as_it_is(
        self, publisher: Publisher, consume: Consume, queues: Queues, queue: str
    ) -> None:
        publisher.publish([self.message(queue, b"kept")], nothing)

        assert queues.declare_error_queue(queue) is False
        assert bodies(receive(consume(queue), 1)) == [b"kept"]

    def test_declaring_the_staging_queue_again_keeps_what_it_holds(
        self, publisher: Publisher, queues: Queues, staging: str
    ) -> None:
        publisher.publish(self.numbered(staging, 2), nothing)

        queues.declare_staging_queue(staging)

        assert queues.depth(staging) == 2

    def test_a_queue_of_somebody_else_becomes_the_staging_queue_if_it_is_empty(
        self,
        transport: Transport,
        publisher: Publisher,
        consume: Consume,
        queues: Queues,
        queue: str,
    ) -> None:
        need(transport, "single_consumer")

        queues.declare_staging_queue(queue)

        first, second = consume(queue), consume(queue)
        publisher.publish(self.numbered(queue, 3), nothing)
        assert len(receive(first, 3)) == 3
        assert second.receive(1, SILENCE) == []

    def test_a_queue_of_somebody_else_that_holds_messages_is_no_staging_queue(
        self, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 2), nothing)

        with pytest.raises(StagingQueueUnusable):
            queues.declare_staging_queue(queue)

        assert queues.depth(queue) == 2

    def test_purges_what_is_ready_and_says_how_many(
        self, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 3), nothing)

        assert queues.purge(queue) == 3
        assert queues.depth(queue) == 0

    def test_purging_spares_what_is_handed_out(
        self, publisher: Publisher, consume: Consume, queues: Queues, queue: str
    ) -> None:
        publisher.publish(self.numbered(queue, 3), nothing)
        consumer = consume(queue, prefetch=1)
        held = receive(consumer, 1)

        assert queues.purge(queue) == 2
        consumer.close()
        assert bodies(receive(consume(queue), 1)) == bodies(held)

    def test_purging_an_empty_queue_purges_nothing(self, queues: Queues, queue: str) -> None:
        assert queues.purge(queue) == 0

    def test_deletes_a_queue_with_all_it_holds(
        self, transport: Transport, publisher: Publisher, queues: Queues, queue: str
    ) -> None:
        need(transport, "existence")
        publisher.publish(self.numbered(queue, 3), nothing)

        queues.delete(queue)

        assert queues.depth(queue) is None

    def test_deleting_a_missing_queue_is_fine(
        self, queues: Queues, queue_name: Callable[..., str]
    ) -> None:
        queues.delete(queue_name("missing"))

    def test_closing_a_looker_twice_is_no_error(self, transport: Transport) -> None:
        queues = transport.queues()

        queues.close()
        queues.close()
