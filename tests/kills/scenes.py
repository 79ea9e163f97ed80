"""What has to happen so that a process comes to a crash point of a retry."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread

from kombu import Connection, Consumer, Producer, Queue

from retrier.app.parts import make_transport
from retrier.events.processor import (
    BatchAdopted,
    BatchMarked,
    BatchOpened,
    BatchStaged,
    CompletionTried,
    CopiesAcked,
    CopiesPublished,
    CopiesSent,
    EndMarkerSent,
    LeaseAcquired,
    LeaseReleased,
    MessagesClaimed,
    RestBackedOff,
    RestMoved,
    RetrySentAlone,
    StagingBackedOff,
    StagingConnected,
    StagingIdsRecorded,
    StagingQueueDeleted,
    StagingQueuePurged,
    WindowRecorded,
    WindowSent,
    WindowStamped,
)
from retrier.settings import load_settings
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
def rob_again_and_again(place: Place) -> Iterator[None]:
    """Take every copy off the staging queue, also when it was deleted and is back."""
    with _working(partial(_rob, place)):
        yield


@contextmanager
def _working(work: Callable[[Event, Event], None]) -> Iterator[None]:
    stop, ready = Event(), Event()
    thread = Thread(target=work, args=(ready, stop), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        # Also where the process missed its point: a robber declares the queue for ever.
        stop.set()
        thread.join(5)


def _hold(place: Place, ready: Event, stop: Event) -> None:
    with Connection(place.broker_url) as connection:
        _consume(connection, place.staging_queue, ready, stop, no_ack=False)


def _rob(place: Place, ready: Event, stop: Event) -> None:
    queues = make_transport(load_settings(place.host.config, {})).queues()
    while not stop.is_set():
        # Whoever has deleted it pauses before it declares it anew, and then finds us there: a
        # single active consumer gets all copies.
        queues.declare_staging_queue(place.staging_queue)
        with Connection(place.broker_url) as connection:
            # On the embedded broker only who has got a message is the active consumer.
            Producer(connection.default_channel).publish(b"bait", routing_key=place.staging_queue)
            # It may be deleted again before we consume: then the next turn declares it.
            with suppress(*connection.channel_errors):
                _consume(connection, place.staging_queue, ready, stop, no_ack=True)
    queues.close()


def _consume(
    connection: Connection, queue: str, ready: Event, stop: Event, *, no_ack: bool
) -> None:
    """Take what comes until told to stop, or until the queue is deleted; ready with the first."""
    consumer = Consumer(
        connection.default_channel,
        [Queue(queue)],
        no_ack=no_ack,
        on_message=lambda _message: ready.set(),
        auto_declare=False,
    )
    consumer.consume()
    # The queue is deleted in the end, which ends what we hold of it.
    with suppress(*connection.connection_errors):
        while not stop.is_set():
            with suppress(TimeoutError):
                connection.drain_events(timeout=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A process dies at `first`, there is trouble, and the next one dies at the point.

    Without `first`, the process that is asked for the retry dies at the point. `stopped`: it is
    told to stop in the middle of its work. `refused`: so many messages more have properties that
    the broker cannot take. `without_broker`: it is out of reach from the request on. `in_steps`:
    it has to be marked in several transactions, so it is asked for by name where one for all takes
    one.
    """

    point: str
    time: int = 1
    first: str | None = None
    trouble: Trouble = no_trouble
    stopped: bool = False
    refused: int = 0
    without_broker: bool = False
    in_steps: bool = False
    in_order: bool = False
    """It can only happen where copies have an order, and one consumer has all of them: not on SQS."""

    def __str__(self) -> str:
        return self.point

    @property
    def crash_at(self) -> str:
        """The point as the test switch takes it."""
        return f"{self.point}:{self.time}"


SCENES = [
    Scene(point=LeaseAcquired.name, first=WindowStamped.name),
    Scene(point=LeaseReleased.name, first=BatchStaged.name, stopped=True),
    Scene(point=BatchOpened.name, in_steps=True),
    Scene(point=MessagesClaimed.name, in_steps=True),
    Scene(point=BatchMarked.name),
    Scene(point=BatchAdopted.name, first=MessagesClaimed.name, in_steps=True),
    Scene(point=StagingIdsRecorded.name, time=2),
    Scene(point=StagingConnected.name),
    Scene(point=StagingQueuePurged.name),
    Scene(point=CopiesSent.name, time=2),
    Scene(point=StagingBackedOff.name, without_broker=True),
    Scene(point=CopiesPublished.name),
    Scene(point=BatchStaged.name),
    Scene(point=EndMarkerSent.name, first=BatchStaged.name, in_order=True),
    Scene(point=WindowStamped.name, time=2),
    Scene(point=CopiesAcked.name, time=2),
    Scene(point=WindowSent.name, time=2),
    Scene(point=RetrySentAlone.name, time=2, first=WindowStamped.name),
    Scene(point=WindowRecorded.name),
    Scene(point=CompletionTried.name, refused=1),
    Scene(
        point=StagingQueueDeleted.name,
        first=BatchStaged.name,
        trouble=hold_all_copies,
        in_order=True,
    ),
    Scene(point=RestMoved.name, first=BatchStaged.name, trouble=purge),
    Scene(
        point=RestBackedOff.name,
        first=StagingConnected.name,
        trouble=rob_again_and_again,
        in_order=True,
    ),
]
