"""What every test of the transport suite works with; a transport's own test class fills it in."""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import pytest

from retrier.domain.wire import Outgoing
from retrier.transport.seam import Consumer, Publisher, Queues, Transport

Consume = Callable[..., Consumer]
Body = bytes
Raw = bytes


class TransportFixtures:
    """Fixtures and values that the suite's tests ask for."""

    factory: ClassVar[str]
    """`module:function` that makes the transport from its URL, for other processes."""

    no_properties: ClassVar[Raw]
    """The raw properties of a message that has none."""

    @pytest.fixture
    def url(self) -> str:
        """Give the broker's URL."""
        raise NotImplementedError

    @pytest.fixture
    def transport(self, url: str) -> Transport:
        """Give the transport under test."""
        raise NotImplementedError

    @pytest.fixture
    def samples(self) -> Mapping[str, tuple[Raw, Body]]:
        """Give messages as they occur in the world, the awkward ones above all."""
        raise NotImplementedError

    @pytest.fixture
    def hands_out(self) -> Callable[[Raw], Raw]:
        """Say what properties a message has when a queue hands it out: those it was given."""
        return lambda raw: raw

    @pytest.fixture
    def as_sent(self) -> Callable[[Raw], Raw]:
        """Say what of the properties of a delivery the sender has written: all of them."""
        return lambda raw: raw

    @pytest.fixture
    def new_queue(self) -> Callable[[], str]:
        """Make a queue as those are that exist already: declared by somebody else."""
        raise NotImplementedError

    @pytest.fixture
    def queue(self, new_queue: Callable[[], str]) -> str:
        """Give an empty queue of somebody else's."""
        return new_queue()

    @pytest.fixture
    def staging(self, queues: Queues, queue_name: Callable[..., str]) -> str:
        """Give an empty staging queue."""
        name = queue_name("staging")
        queues.declare_staging_queue(name)
        return name

    @pytest.fixture
    def publisher(self, transport: Transport) -> Iterator[Publisher]:
        """Give a publisher that sends no probe."""
        publisher = transport.publisher()
        yield publisher
        publisher.close()

    @pytest.fixture
    def queues(self, transport: Transport) -> Iterator[Queues]:
        """Give the looker at queues."""
        queues = transport.queues()
        yield queues
        queues.close()

    @pytest.fixture
    def consume(self, transport: Transport) -> Iterator[Consume]:
        """Make consumers that are closed afterwards."""
        consumers: list[Consumer] = []

        def make(queue: str, prefetch: int = 1000) -> Consumer:
            consumers.append(transport.consumer(queue, prefetch))
            return consumers[-1]

        yield make
        for consumer in consumers:
            consumer.close()

    def message(self, queue: str, body: Body = b"") -> Outgoing:
        """Make a message without properties."""
        return Outgoing(queue=queue, raw=self.no_properties, body=body)

    def numbered(self, queue: str, count: int) -> list[Outgoing]:
        """Make messages whose bodies are 0, 1, 2 ..."""
        return [self.message(queue, b"%d" % number) for number in range(count)]


def nothing() -> None:
    """Wait without doing anything meanwhile."""


def need(transport: Transport, capability: str) -> None:
    """Skip what this transport says it cannot do."""
    if not getattr(transport.capabilities, capability):
        pytest.skip(f"the transport's capabilities say: no {capability}")
