"""A Kombu transport over the broker's file; each connection has one holder with a lease."""

from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import virtual

from retrier.errors import BrokerUnavailable
from retrier.transport.embedded.broker_file import BUSY_TIMEOUT
from retrier.transport.embedded.channel import Channel
from retrier.transport.embedded.consumer import LAST, Idling
from retrier.transport.embedded.hold import LEASE, Hold
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.rows import Held, HoldLost
from retrier.transport.embedded.transport import find_file, open_queues_db

Untyped: Any = virtual.Transport


class Transport(Untyped):  # type: ignore[misc]  # Kombu types half of itself
    """The transport of `kombu.Connection("embedded:///PATH")`.

    Transport options, all in seconds: `lease`, `patience` (the longest wait for other writers),
    `polling_interval` (the longest wait between two looks at an empty queue).
    """

    Channel = Channel
    polling_interval = LAST
    driver_type = "sql"
    driver_name = "sqlite3"
    connection_errors = (*virtual.Transport.connection_errors, BrokerUnavailable)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = ()
    default_connection_params: dict[str, object] = {}  # noqa: RUF012 - Kombu only reads it
    implements = virtual.Transport.implements.extend(batch_publish=True)

    _db: QueuesDb | None = None
    _hold: Hold | None = None

    @property
    def db(self) -> QueuesDb:
        """The open file. Raises BrokerUnavailable."""
        if self._db is None:
            raise BrokerUnavailable("the connection to the embedded broker is closed")
        return self._db

    def establish_connection(self) -> "Transport":
        """Open or create the file. Raises ConfigurationError, BrokerUnavailable."""
        options = self.client.transport_options
        path = find_file(self.client.hostname, self.client.virtual_host)
        self._db = open_queues_db(path, options.get("patience", BUSY_TIMEOUT))
        super().establish_connection()
        return self

    def close_connection(self, connection: object) -> None:
        """Give back the messages its channels hold, and close the file."""
        with suppress(BrokerUnavailable):
            super().close_connection(connection)
        self._let_go()
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def verify_connection(self, _connection: object) -> bool:
        """Say whether the file is open."""
        return self._db is not None

    def drain_events(self, _connection: object, timeout: float | None = None) -> None:
        """Deliver one message. Raises TimeoutError if none comes within `timeout` seconds."""
        deadline = None if timeout is None else monotonic() + timeout
        idling = Idling(self.polling_interval)
        while True:
            with suppress(Empty):
                self.cycle.get(self._deliver, timeout=timeout)
                return
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            idling.wait(left)

    def take(self, queue: str) -> Held | None:
        """Take one message off a queue. Raises QueueGone, BrokerUnavailable.

        If the lease ran out (this process was frozen), the message is taken under a new one. The
        messages held under the old lease belong to other consumers then.
        """
        try:
            taken = self._ensure_hold().take(queue, 1)
        except HoldLost:
            self._let_go()
            taken = self._ensure_hold().take(queue, 1)
        return taken[0] if taken else None

    def step_down(self, queue: str) -> None:
        """Let another consumer be the active one of a queue. Raises BrokerUnavailable."""
        if self._hold is not None:
            self._hold.step_down(queue)

    def _ensure_hold(self) -> Hold:
        if self._hold is None:
            self._hold = Hold(self.db, self.client.transport_options.get("lease", LEASE))
        return self._hold

    def _let_go(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.close()
