"""A process that ingests is frozen with failures in hand; another one gets and stores them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGCONT
from subprocess import Popen

import pytest

from retrier.domain.wire import Confirmed, Outgoing
from retrier.store.engine.database import Database
from retrier.store.schema import failed_imports, failed_messages, processing_attempts
from retrier.transport.rabbitmq import RabbitMQTransport
from tests.contract.store_rows import rows, set_columns
from tests.support.far_side import FarSide
from tests.support.project import ROOT
from tests.support.raw_messages import nservicebus_headers, raw_properties, retrier_headers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rabbitmq

EACH = 40
RESOLVED = "resolved"
LONG = 60.0


class Ingesting:
    """The processes that ingest one queue into one database."""

    def __init__(self, url: str, queue: str, database: Database) -> None:
        self.queue = queue
        self.database = database
        self._url = url
        self._started: list[Popen[bytes]] = []
        self._publisher = RabbitMQTransport(url, connection_name="fails").publisher()

    def fail(self, *messages: tuple[bytes, bytes]) -> None:
        """Put messages on the queue: properties and body."""
        outgoing = [Outgoing(queue=self.queue, raw=raw, body=body) for raw, body in messages]
        assert set(self._publisher.publish(outgoing, lambda: None)) == {Confirmed()}

    def start(self, freeze_at: int = 0) -> Popen[bytes]:
        """Start a process."""
        url = self.database.engine.url.render_as_string(hide_password=False)
        program = [sys.executable, "-m", "tests.support.ingesting_process"]
        self._started.append(
            Popen([*program, self._url, url, self.queue, str(freeze_at)], cwd=ROOT)
        )
        return self._started[-1]

    def stored(self) -> int:
        """Return how many attempts and failed imports there are."""
        return sum(len(rows(self.database, each)) for each in (processing_attempts, failed_imports))

    def close(self) -> None:
        """End all."""
        self._publisher.close()
        for each in self._started:
            each.kill()
            each.wait()


@pytest.fixture
def ingesting(
    amqp_url: str, queue_name: Callable[..., str], far_side: FarSide, database: Database
) -> Iterator[Ingesting]:
    queue = far_side.declare(queue_name("error"), x_queue_type="quorum")
    ingesting = Ingesting(amqp_url, queue, database)
    yield ingesting
    ingesting.close()


def is_frozen(process: Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def of_every_kind(number: int) -> list[tuple[bytes, bytes]]:
    """Make one failure with an id, one without, and one that cannot be understood."""
    body = b"%d" % number
    named = nservicebus_headers(**{"NServiceBus.MessageId": f"id {number}"})
    return [
        (raw_properties(named, delivery_mode=2), body),
        (raw_properties(retrier_headers(), delivery_mode=2), body),
        (raw_properties({}, delivery_mode=2), body),
    ]


def test_what_was_in_its_hands_is_stored_once_and_stays_resolved(ingesting: Ingesting) -> None:
    # Given a process with batches in hand and more in its socket, which another one stores
    ingesting.fail(*(message for number in range(EACH) for message in of_every_kind(number)))
    frozen = ingesting.start(freeze_at=8)
    wait_until(lambda: is_frozen(frozen), LONG, "it is frozen")
    other = ingesting.start()
    wait_until(lambda: ingesting.stored() == 3 * EACH, LONG, "the other one stores all")
    other.terminate()
    other.wait(LONG)
    resolve_all(ingesting.database)

    # When it wakes, and has stored what fails after that
    frozen.send_signal(SIGCONT)
    ingesting.fail((raw_properties({}, delivery_mode=2), b"later"))
    wait_until(lambda: has_stored(ingesting.database, b"later"), LONG, "it goes on")

    assert ingesting.stored() == 3 * EACH + 1
    statuses = [each["status"] for each in rows(ingesting.database, failed_messages)]
    assert statuses == [RESOLVED] * 2 * EACH


def resolve_all(database: Database) -> None:
    """Have a person say of all messages that they are dealt with."""
    for each in rows(database, failed_messages):
        set_columns(database, each["unique_message_id"], status=RESOLVED, resolution="by_hand")


def has_stored(database: Database, body: bytes) -> bool:
    return any(each["body"] == body for each in rows(database, failed_imports))
