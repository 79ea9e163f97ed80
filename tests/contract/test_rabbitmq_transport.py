"""RabbitMQ against the conformance suite, on classic and on quorum queues."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.seam import QueueKind
from tests.contract.rabbitmq_samples import samples_of
from tests.contract.transport_suite import TransportSuite
from tests.support.amqp_bytes import NO_PROPERTIES
from tests.support.far_side import FarSide
from tests.support.rabbitmq_habits import RabbitMQHabits


def make_transport(url: str) -> RabbitMQTransport:
    """Make the transport in another process."""
    return RabbitMQTransport(url, connection_name="contract")


class RabbitMQSuite(TransportSuite):
    """Fills the suite in for one type of queue."""

    kind: ClassVar[QueueKind]
    factory = f"{__name__}:{make_transport.__name__}"
    no_properties = NO_PROPERTIES

    @pytest.fixture
    def url(self, amqp_url: str) -> str:
        return amqp_url

    @pytest.fixture
    def transport(self, url: str) -> RabbitMQTransport:
        return RabbitMQTransport(url, staging_queue_type=self.kind, connection_name="contract")

    @pytest.fixture
    def samples(self, transport: RabbitMQTransport) -> Mapping[str, tuple[bytes, bytes]]:
        return samples_of(transport.user or "")

    @pytest.fixture
    def hands_out(self, habits: RabbitMQHabits) -> Callable[[bytes], bytes]:
        return habits.hands_out

    @pytest.fixture
    def new_queue(self, far_side: FarSide, queue_name: Callable[..., str]) -> Callable[[], str]:
        return lambda: far_side.declare(queue_name(self.kind), x_queue_type=self.kind)


@pytest.mark.rabbitmq
class TestClassicQueues(RabbitMQSuite):
    kind = "classic"


@pytest.mark.rabbitmq
class TestQuorumQueues(RabbitMQSuite):
    kind = "quorum"
