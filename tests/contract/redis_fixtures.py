"""What the tests of Redis work with: queues of the shared server that are removed afterwards."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
import redis
from kombu import Connection, Exchange, Queue

from retrier.transport.redis import RedisTransport
from retrier.transport.redis.line import Address
from tests.contract.transport_fixtures import TransportFixtures


def make_transport(url: str) -> RedisTransport:
    """Make the transport in another process."""
    return RedisTransport(Address(url=url, options={}))


def bind(url: str, queue: str) -> None:
    """Declare a queue as a Celery worker does: with an exchange of its name."""
    with Connection(url) as connection:
        Queue(queue, Exchange(queue), queue, channel=connection.default_channel).declare()


class RedisFixtures(TransportFixtures):
    """Fills in the fixtures of the transport suite."""

    factory = f"{__name__}:{make_transport.__name__}"
    no_properties = b"{}"

    @pytest.fixture
    def url(self, redis_url: str) -> str:
        return redis_url

    @pytest.fixture
    def transport(self, url: str) -> RedisTransport:
        return make_transport(url)

    @pytest.fixture
    def client(self, url: str) -> Iterator[Any]:
        """Give somebody else's client."""
        with closing(redis.Redis.from_url(url)) as client:
            yield client

    @pytest.fixture
    def queue_name(self, client: Any) -> Iterator[Callable[..., str]]:
        """Make names of queues, of which nothing is left in the end."""
        mark = uuid4().hex[:12]

        yield lambda prefix="queue": f"test.{mark}.{prefix}.{uuid4().hex[:6]}"

        for key in client.scan_iter(f"*test.{mark}.*"):
            client.delete(key)
        for name in ("_retrier:queues", "_retrier:staging"):
            for member in client.sscan_iter(name, f"test.{mark}.*"):
                client.srem(name, member)

    @pytest.fixture
    def new_queue(self, url: str, queue_name: Callable[..., str]) -> Callable[[], str]:
        def declare() -> str:
            name = queue_name()
            bind(url, name)
            return name

        return declare

    @pytest.fixture
    def hands_out(self) -> Callable[[bytes], bytes]:
        def normal(raw: bytes) -> bytes:
            envelope = json.loads(raw)
            return json.dumps({**envelope, "properties": envelope.get("properties") or {}}).encode()

        return normal
