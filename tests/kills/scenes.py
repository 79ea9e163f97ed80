"""What has to happen so that a process comes to a crash point of a retry."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread

from kombu import Connection, Consumer, Queue

from retrier.crash_points import LeasePoint
from retrier.processor.crash_points import CrashPoint
from tests.kills.sites import Place

Trouble = Callable[[Place], AbstractContextManager[object]]


def no_trouble(_place: Place) -> AbstractContextManager[object]:
    """Leave everything as it is."""
    return nullcontext()


def purge(place: Place) -> AbstractContextManager[object]:
    """Empty the staging queue, as a person might."""
    place.shop.channel.queue_purge(place.staging_queue)
    return nullcontext()


@contextmanager
def hold_all_copies(place: Place) -> Iterator[None]:
    """Keep what is in the staging queue, as a predecessor does that is half dead."""
    with _working(partial(_hold, place)):
        yield


@contextmanager
def purge_again_and_again(place: Place) -> Iterator[None]:
    """Empty the staging queue all the time, also when it was deleted and is back.

    Two do it: one alone may be slow just when the copies are there.
    """
    with _working(partial(_purge, place)), _working(partial(_purge, place)):
        yield


@contextmanager
def _working(work: Callable[[Event, Event], None]) -> Iterator[None]:
    stop, ready = Event(), Event()
    thread = Thread(target=work, args=(ready, stop), daemon=True)
    thread.start()
    assert ready.wait(5)
    yield
    stop.set()
    thread.join(5)


def _hold(place: Place, ready: Event, stop: Event) -> None:
    with Connection(place.broker_url) as connection:
        consumer = Consumer(
            connection.default_channel,
            [Queue(place.staging_queue)],
            on_message=lambda _message: None,
            auto_declare=False,
        )
        consumer.consume()
        ready.set()
        # The queue is deleted in the end, which ends what we hold of it.
        with suppress(*connection.connection_errors):
            while not stop.is_set():
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.1)


def _purge(place: Place, ready: Event, stop: Event) -> None:
    embedded = place.broker_url.startswith("embedded:")
    # A broker in a file has one writer at a time: whoever never waits keeps all others out.
    pause = 0.002 if embedded else 0
    with Connection(place.broker_url) as connection:
        channel = connection.channel()
        ready.set()
        while not stop.wait(pause):
            try:
                channel.queue_purge(place.staging_queue)
            except (*connection.connection_errors, *connection.channel_errors):
                # There is no queue for a moment after it was deleted, which closes the channel.
                # py-amqp opens it again by itself, and one more each time would be too many.
                channel = connection.channel() if embedded else channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A process dies at `first`, there is trouble, and the next one dies at the point.

    Without `first`, the process that is asked for the retry dies at the point. `stopped`: it is
    told to stop in the middle of its work. `refused`: so many messages more have properties that
    the broker cannot take. `without_broker`: it is out of reach from the request on. `surely_on`:
    elsewhere a busy machine may miss the moment, so the short form runs it there.
    """

    point: str
    time: int = 1
    first: str | None = None
    trouble: Trouble = no_trouble
    stopped: bool = False
    refused: int = 0
    without_broker: bool = False
    surely_on: str | None = None

    def __str__(self) -> str:
        return self.point

    @property
    def crash_at(self) -> str:
        """The point as the test switch takes it."""
        return f"{self.point}:{self.time}"


SCENES = [
    Scene(point=LeasePoint.ACQUIRED, first=CrashPoint.FORWARDING_STAMPED),
    Scene(point=LeasePoint.RELEASED, first=CrashPoint.STAGING_COMMITTED, stopped=True),
    Scene(point=CrashPoint.MARKING_OPENED),
    Scene(point=CrashPoint.MARKING_CLAIMED),
    Scene(point=CrashPoint.MARKING_MOVED),
    Scene(point=CrashPoint.ADOPTION_MOVED, first=CrashPoint.MARKING_CLAIMED),
    Scene(point=CrashPoint.STAGING_CONNECTED),
    Scene(point=CrashPoint.STAGING_PURGED),
    Scene(point=CrashPoint.STAGING_SENT, time=2),
    Scene(point=CrashPoint.STAGING_SENT_ALONE, refused=1),
    Scene(point=CrashPoint.STAGING_BACKED_OFF, without_broker=True),
    Scene(point=CrashPoint.STAGING_PUBLISHED),
    Scene(point=CrashPoint.STAGING_COMMITTED),
    Scene(point=CrashPoint.FORWARDING_MARKED, first=CrashPoint.STAGING_COMMITTED),
    Scene(point=CrashPoint.FORWARDING_STAMPED, time=2),
    Scene(point=CrashPoint.FORWARDING_ACKED, time=2),
    Scene(point=CrashPoint.FORWARDING_PUBLISHED, time=2),
    Scene(point=CrashPoint.FORWARDING_SENT_ALONE, time=2, first=CrashPoint.FORWARDING_STAMPED),
    Scene(point=CrashPoint.FORWARDING_RECORDED),
    Scene(point=CrashPoint.FORWARDING_COMPLETED),
    Scene(
        point=CrashPoint.FORWARDING_QUEUE_DELETED,
        first=CrashPoint.STAGING_COMMITTED,
        trouble=hold_all_copies,
    ),
    Scene(point=CrashPoint.FORWARDING_MOVED, first=CrashPoint.STAGING_COMMITTED, trouble=purge),
    Scene(
        point=CrashPoint.FORWARDING_BACKED_OFF,
        first=CrashPoint.STAGING_CONNECTED,
        trouble=purge_again_and_again,
        surely_on="embedded-sqlite",
    ),
]
