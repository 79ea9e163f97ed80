"""What the tests of SQS work with: queues of a server of this process that are removed afterwards."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from retrier.transport.sqs import SqsTransport
from tests.contract.transport_fixtures import TransportFixtures
from tests.support.sqs_server import SqsServer


def raw(group: str = "", **attributes: Mapping[str, str]) -> bytes:
    """Make raw properties as they are stored."""
    parts = {"attributes": attributes, "goes_back": {"MessageGroupId": group} if group else {}}
    told = {name: each for name, each in parts.items() if each}
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


class SqsFixtures(TransportFixtures):
    """Fills in the fixtures of the transport suite."""

    factory = ""
    no_properties = b"{}"

    @pytest.fixture
    def url(self, sqs_server: SqsServer) -> str:
        return sqs_server.endpoint

    @pytest.fixture
    def transport(self, sqs_server: SqsServer) -> SqsTransport:
        return sqs_server.transport()

    @pytest.fixture
    def client(self, sqs_server: SqsServer) -> Iterator[Any]:
        """Give somebody else's client."""
        with closing(sqs_server.client()) as client:
            yield client

    @pytest.fixture
    def queue_name(self, client: Any) -> Iterator[Callable[..., str]]:
        """Make names of queues, of which nothing is left in the end."""
        names: list[str] = []

        def make(prefix: str = "queue", end: str = "") -> str:
            dotted = ".staging" if prefix == "staging" else end
            names.append(f"test-{prefix}-{uuid4().hex[:12]}{dotted}")
            return names[-1]

        yield make
        for name in names:
            with suppress(ClientError):
                real = name.replace(".staging", "-staging")
                client.delete_queue(QueueUrl=client.get_queue_url(QueueName=real)["QueueUrl"])

    @pytest.fixture
    def new_queue(self, client: Any, queue_name: Callable[..., str]) -> Callable[..., str]:
        def declare(**attributes: str) -> str:
            name = queue_name(end=".fifo" if "FifoQueue" in attributes else "")
            client.create_queue(QueueName=name, Attributes=attributes)
            return name

        return declare

    @pytest.fixture
    def as_sent(self) -> Callable[[bytes], bytes]:
        def without_facts(given: bytes) -> bytes:
            kept = {n: v for n, v in json.loads(given).items() if n in {"attributes", "goes_back"}}
            return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()

        return without_facts
