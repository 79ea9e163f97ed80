"""Messages that fail all the time, a consumer of what is retried, and people who ask for retries."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic
from zlib import crc32

import httpx

from retrier.domain import headers
from tests.endurance.instances.hosts import Node
from tests.support.servers import pika_connection
from tests.support.shop import Sent, Shop

UNIQUE_ID = "ServiceControl.Retry.UniqueMessageId"
STEP = 0.2
RATE = 100
"""Messages that fail in a second."""
FAIL_AGAIN, CONFIRM = 20, 70
"""Of a hundred retries so many fail again, and of a hundred others so many are confirmed."""
MOST_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Arrived:
    """One copy of a retry, as its consumer saw it."""

    retry_id: str
    message_id: str
    at: float


@dataclass(slots=True)
class Tally:
    """What was produced and what came back; each list has one writer."""

    produced: list[str] = field(default_factory=list)
    arrived: list[Arrived] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    unanswered: int = 0

    @property
    def last_arrival(self) -> float:
        """When the last copy came."""
        return self.arrived[-1].at if self.arrived else 0.0

    def doubled(self, begin: float = 0.0, end: float = float("inf")) -> list[str]:
        """Return the retry id of each copy beyond the first that came in this time."""
        seen: set[str] = set()
        beyond = []
        for each in self.arrived:
            if each.retry_id in seen and begin <= each.at < end:
                beyond.append(each.retry_id)
            seen.add(each.retry_id)
        return beyond


class Traffic:
    """Threads with a connection each, straight to the broker."""

    def __init__(self, amqp_url: str, prefix: str, kind: str) -> None:
        self.tally = Tally()
        self.stop = Event()
        self._url, self._prefix, self._kind = amqp_url, prefix, kind
        self._to_answer: SimpleQueue[Sent] = SimpleQueue()
        self._threads: list[Thread] = []
        self._messages = 0
        self.error, self.orders, self._payments = (
            self._name(queue) for queue in ("error", "orders", "payments")
        )

    def begin(self, nodes: Sequence[Node], dice: random.Random) -> None:
        """Begin to fail what is ordered, to answer retries, and to ask any node for them."""
        self._start(self._consume)
        self._start(self._answer)
        self._start(self._produce)
        self._start(lambda: self._ask(nodes, dice))

    def declare(self) -> None:
        """Declare the queues."""
        with closing(pika_connection(self._url)) as connection:
            Shop(connection.channel(), self._name, self._kind)

    def is_done(self) -> bool:
        """Whether all messages have failed that shall."""
        return len(self.tally.produced) == self._messages

    def order(self, messages: int) -> None:
        """Let so many more fail, one after the other."""
        self._messages += messages

    def end(self) -> None:
        """Stop all of it."""
        self.stop.set()
        for thread in self._threads:
            thread.join(30)

    def delete_queues(self, *others: str) -> None:
        """Delete the queues."""
        with closing(pika_connection(self._url)) as connection:
            for queue in (self.error, self.orders, self._payments, *others):
                connection.channel().queue_delete(queue)

    def depth(self) -> int:
        """Return what is ready on the error queue, plus what is not answered yet."""
        with closing(pika_connection(self._url)) as connection:
            asked = connection.channel().queue_declare(self.error, passive=True)
        return int(asked.method.message_count) + self._to_answer.qsize()

    def ask_for_all(self, nodes: Sequence[Node], dice: random.Random) -> None:
        """Ask one node after the other for a retry of all, until one answers."""
        for node in dice.sample(list(nodes), len(nodes)):
            if self._post(node, "/api/errors/retry/all"):
                return

    def _name(self, queue: str) -> str:
        return f"{self._prefix}.{queue}"

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(Thread(target=work, daemon=True))
        self._threads[-1].start()

    def _produce(self) -> None:
        with closing(pika_connection(self._url)) as connection:
            shop = Shop(connection.channel(), self._name, self._kind)
            while not self.stop.wait(STEP):
                missing = self._messages - len(self.tally.produced)
                self.tally.produced += shop.fail(min(missing, int(RATE * STEP)))
                connection.process_data_events(0)

    def _consume(self) -> None:
        with closing(pika_connection(self._url)) as connection:
            channel = connection.channel()
            for method, properties, body in channel.consume(
                self.orders, auto_ack=True, inactivity_timeout=STEP
            ):
                if method is not None:
                    sent = Sent(properties, body)
                    retry_id = str(sent.headers[headers.RETRY_ID])
                    arrived = Arrived(retry_id, properties.message_id, monotonic())
                    self.tally.arrived.append(arrived)
                    self._to_answer.put(sent)
                elif self.stop.is_set():
                    break

    def _answer(self) -> None:
        with closing(pika_connection(self._url)) as connection:
            shop = Shop(connection.channel(), self._name, self._kind)
            while not (self.stop.is_set() and self._to_answer.empty()):
                with suppress(Empty):
                    self._answer_one(shop, self._to_answer.get(timeout=STEP))
                connection.process_data_events(0)

    def _answer_one(self, shop: Shop, sent: Sent) -> None:
        """Do with each copy of a retry what is done with the first one."""
        message_id = sent.properties.message_id
        chance = crc32(str(sent.headers[headers.RETRY_ID]).encode())
        if chance % 100 < FAIL_AGAIN and self.tally.failures[message_id] < MOST_FAILURES:
            self.tally.failures[message_id] += 1
            shop.fail_again(sent)
        elif chance // 100 % 100 < CONFIRM:
            shop.confirm(sent)

    def _ask(self, nodes: Sequence[Node], dice: random.Random) -> None:
        while not self.stop.wait(dice.uniform(1, 4)):
            node = dice.choice(list(nodes))
            if dice.random() < 1 / 2:
                self._post(node, "/api/errors/retry/all")
            else:
                self._ask_for_group(node)

    def _ask_for_group(self, node: Node) -> None:
        with suppress(httpx.HTTPError, ValueError):
            groups = node.ask("GET", "/api/recoverability/groups").raise_for_status().json()
            if groups:
                self._post(node, f"/api/recoverability/groups/{groups[0]['id']}/errors/retry")

    def _post(self, node: Node, path: str) -> bool:
        try:
            taken = node.ask("POST", path).is_success
        except httpx.HTTPError:
            taken = False
        self.tally.asked += taken
        self.tally.unanswered += not taken
        return taken
