"""Publishes windows of messages, each in one transaction."""

from collections.abc import Callable, Iterable, Sequence

from retrier.domain.wire import (
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
    UnreadableProperties,
)
from retrier.errors import BrokerUnavailable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.embedded.broker_file import CommitUnknown
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.rows import Parcel, why_too_large
from retrier.transport.seam import Awaited

CODEC = EnvelopePropertyCodec()

Open = Callable[[], QueuesDb]


class EmbeddedPublisher:
    """Stores messages in queues; after an error the next window opens the file again."""

    def __init__(self, open_db: Open) -> None:
        """Open the file. Raises BrokerUnavailable."""
        self._open = open_db
        self._db: QueuesDb | None = open_db()

    @property
    def awaited(self) -> Awaited:
        """Nothing: a commit confirms at once, so no queue is ever waited for."""
        return Awaited()

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Store all that can be stored, in one transaction. See the seam for what is promised.

        An error before the commit raises BrokerUnavailable, and nothing is stored. An error of the
        commit itself makes the whole window Unknown.
        """
        window = list(messages)
        problems = [_why_refused(message) for message in window]
        parcels = [
            _parcel(message) for message, why in zip(window, problems, strict=True) if not why
        ]
        settled = iter(self._store(parcels, waiting))
        while while_in_flight():
            pass
        return tuple(Refused(why) if why else next(settled) for why in problems)

    def keep_alive(self) -> None:
        """Do nothing: a file needs no heartbeats."""

    def close(self) -> None:
        """Close the file; never hangs, never raises."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _store(self, parcels: Sequence[Parcel], waiting: Callable[[], None]) -> list[Outcome]:
        if not parcels:
            return []
        db = self._db = self._db or self._open()
        try:
            found = db.put(parcels, waiting)
        except CommitUnknown as lost:
            self.close()
            return [Unknown(str(lost)) for _ in parcels]
        except BrokerUnavailable:
            self.close()
            raise
        return [
            Confirmed() if stored else Returned(f"it is not in {db.place}")
            for parcel, stored in zip(parcels, found, strict=True)
        ]


def _parcel(message: Outgoing) -> Parcel:
    return Parcel(
        queue=message.queue,
        exchange="",
        routing_key=message.queue,
        raw=message.raw,
        body=message.body,
    )


def _why_refused(message: Outgoing) -> str | None:
    """Return why a message cannot be stored, or could not be read afterwards; else None."""
    try:
        message.queue.encode()
        CODEC.canonical(message.raw)
    except UnicodeEncodeError as error:
        return f"the name of the queue is no text: {error}"
    except UnreadableProperties as error:
        return str(error)
    return why_too_large(message.raw, message.body)
