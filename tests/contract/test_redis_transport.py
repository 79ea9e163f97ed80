"""Redis against the conformance suite."""

from collections.abc import Mapping

import pytest

from retrier.transport.seam import Queues, Transport
from tests.contract.redis_fixtures import RedisFixtures
from tests.contract.transport_fixtures import nothing
from tests.contract.transport_suite import TransportSuite
from tests.support.kombu_envelopes import SAMPLES


class TestRedisTransport(RedisFixtures, TransportSuite):
    @pytest.fixture
    def samples(self) -> Mapping[str, tuple[bytes, bytes]]:
        return SAMPLES

    # A server without memory refuses a message, so there is nothing to probe for.
    test_sends_one_probe_ahead_of_the_first_window = None

    def test_sends_no_probe(
        self, transport: Transport, queues: Queues, queue: str, staging: str
    ) -> None:
        publisher = transport.publisher(self.message(staging))

        publisher.publish([self.message(queue)], nothing)
        publisher.close()

        assert queues.depth(staging) == 0
