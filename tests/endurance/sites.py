"""One run on RabbitMQ with PostgreSQL, or on the embedded default; what both have in common."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kills.sites import Combination, Place, opened_place
from tests.support.databases import open_upgraded, sqlite_url, temporary_postgres
from tests.support.servers import POSTGRES, RABBITMQ, found
from tests.support.shop import failure_headers

RABBITMQ_SITE, EMBEDDED_SITE = "rabbitmq", "embedded"
SITES = (RABBITMQ_SITE, EMBEDDED_SITE)
MESSAGE_ID = "NServiceBus.MessageId"


@contextmanager
def opened_site(kind: str, policies: Mapping[str, Any]) -> Iterator[Place]:
    """Give new queues, an empty database and a host with these policies; nothing runs yet."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        amqp_url = ""
        if kind == RABBITMQ_SITE:
            amqp_url = stack.enter_context(found(RABBITMQ))
            server = stack.enter_context(found(POSTGRES))
            url = stack.enter_context(temporary_postgres(server))
            combination = Combination("quorum", "postgres")
        else:
            url = sqlite_url(folder)
            combination = Combination("embedded", "sqlite")
        database = open_upgraded(url)
        stack.callback(database.dispose)
        opened = opened_place(combination, folder, database, lambda _broker: amqp_url)
        place = stack.enter_context(opened)
        place.host.configure("policies", **policies)
        yield place


def fail(place: Place, message_id: str, exception: tuple[str, str]) -> None:
    """Put a message on the error queue, with type and text of its exception."""
    headers = failure_headers(place.shop.orders) | {
        MESSAGE_ID: message_id,
        "NServiceBus.ExceptionInfo.ExceptionType": exception[0],
        "NServiceBus.ExceptionInfo.Message": exception[1],
    }
    place.shop.put(headers, message_id.encode())


def fail_again(place: Place, headers: Mapping[str, Any], exception: tuple[str, str]) -> None:
    """Put a message back that came: it has failed once more, for the same reason."""
    again = failure_headers(place.shop.orders) | {
        "NServiceBus.ExceptionInfo.ExceptionType": exception[0],
        "NServiceBus.ExceptionInfo.Message": exception[1],
    }
    place.shop.put({**headers, **again}, str(headers[MESSAGE_ID]).encode())


def take_what_came(place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the headers of all that came back by now."""
    orders = place.shop.orders
    if place.shop.depth(orders):
        yield from (sent.headers for sent in place.shop.take(orders, 1))


def stop_all(place: Place) -> Iterator[str]:
    """Stop what runs; yield what is off, also in the database."""
    for service in place.host.services:
        if service.stop() != 0:
            yield "a process did not stop in good order"
    yield from place.broken_rules()
