"""The servers of a run: a RabbitMQ node of its own, so that it has a shovel, and a PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.private_servers import PrivateRabbitMQ, find_plugins, private_rabbitmq
from tests.support.servers import POSTGRES, found

SHOVEL = "rabbitmq_shovel"


@dataclass(frozen=True, slots=True)
class Place:
    """Where it all happens. `node` is None on a broker that is not ours: there is no shovel then."""

    amqp_url: str
    postgres_url: str
    node: PrivateRabbitMQ | None = None

    @property
    def shovels(self) -> bool:
        """Whether the broker can be told to shovel."""
        return self.node is not None and SHOVEL in self.node.plugins


@contextmanager
def opened_place(amqp_url: str | None, postgres_url: str | None) -> Iterator[Place]:
    """Give the servers named, or a broker of our own and the database the tests use."""
    with found(POSTGRES) as usual:
        postgres = postgres_url or usual
        if amqp_url is not None:
            yield Place(amqp_url, postgres)
            return
        with private_rabbitmq(find_plugins(SHOVEL)) as node:
            yield Place(node.url, postgres, node)
