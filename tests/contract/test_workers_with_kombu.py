"""Workers on brokers that only Kombu knows: what works there, and what does not."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import kombu
import pytest

from retrier.worker import Message, Transient, Worker
from tests.support.waiting import wait_until

UntypedConnection: Any = kombu.Connection
Broker = tuple[str, dict[str, Any]]
DEADLINE = 15.0


@pytest.fixture(params=["memory", "filesystem", "redis"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Broker:
    """Give the URL of a broker, and its transport options."""
    if request.param == "filesystem":
        return "filesystem://", {"data_folder_in": tmp_path, "data_folder_out": tmp_path}
    if request.param == "redis":
        redis = pytest.importorskip("redis", reason="the library redis is not installed")
        with closing(redis.Redis()) as client:
            try:
                client.ping()
            except redis.ConnectionError:
                pytest.skip("no Redis on 127.0.0.1:6379")
        return "redis://127.0.0.1:6379/9", {}
    return "memory://", {}


@pytest.fixture
def client(broker: Broker) -> Iterator[Any]:
    """Give a plain Kombu connection."""
    with UntypedConnection(broker[0], transport_options=broker[1]) as connection:
        yield connection


@pytest.fixture
def queue() -> str:
    return f"orders-{uuid4().hex[:8]}"


def take(client: Any, queue: str) -> Any:
    """Wait for a message and take it."""
    found: list[Any] = []
    channel = client.default_channel
    folder = client.transport_options.get("data_folder_in")

    def look() -> bool:
        # Kombu's filesystem makes a file and writes it then: who takes it in between finds it empty.
        files = [] if folder is None else list(folder.glob(f"*.{queue}.msg"))
        if folder is not None and not (files and all(each.stat().st_size for each in files)):
            return False
        message = channel.basic_get(queue, no_ack=True)
        found.extend([] if message is None else [message])
        return bool(found)

    wait_until(look, DEADLINE, f"a message on {queue}")
    return found[0]


@pytest.fixture
def work(broker: Broker, client: Any, queue: str) -> Iterator[Callable[..., None]]:
    """Start a worker in a thread."""
    stop = Event()
    threads: list[Thread] = []
    outputs = {"error_queue": f"{queue}-error", "output_queue": f"{queue}-results"}
    for name in outputs.values():
        # Kombu's memory transport makes a queue when it is first used. Two threads that use it
        # first at the same time each make one, and what is in the other one is lost.
        client.default_channel.queue_declare(name)

    def start(handle: Callable[[Any, Message], object], **options: Any) -> None:
        url, how = broker
        worker = Worker(url, "shop", transport_options=how, **outputs, **options)
        worker.handler(queue)(handle)
        threads.append(Thread(target=worker.run, args=(stop,)))
        threads[-1].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join(DEADLINE)


def publish(client: Any, queue: str, name: str, body: bytes = b"{}", **headers: str) -> None:
    # Whoever publishes first with Kombu makes the queue.
    client.Producer().publish(
        body,
        routing_key=queue,
        headers=headers,
        message_id=name,
        content_type="application/json",
        content_encoding="utf-8",
    )


def test_what_is_handled_and_what_fails_arrives(
    client: Any, queue: str, work: Callable[..., None]
) -> None:
    def handle(body: bytes, message: Message) -> object:
        if message.id == "bad":
            raise KeyError("wrapping")
        return json.loads(body)

    publish(client, queue, "good", b'{"a": 1}')
    publish(client, queue, "bad", b'{"a": "\xc3\xa9"}', Tenant="7")

    work(handle)

    results = [take(client, f"{queue}-results").payload for _ in range(2)]
    assert {each["taskId"]: (each["taskStatus"], each["result"]) for each in results} == {
        "good": ("RESULT_SUCCESS", {"a": 1}),
        "bad": ("RESULT_EXCEPTION", None),
    }
    failed = take(client, f"{queue}-error")
    assert failed.payload == {"a": "é"}
    assert failed.properties["message_id"] == "bad"
    assert failed.headers["Tenant"] == "7"
    assert failed.headers["Retrier.FailedQueue"] == queue
    assert failed.headers["Retrier.Exception.Type"] == "KeyError"


def test_what_is_postponed_is_handled_later(
    client: Any, queue: str, work: Callable[..., None]
) -> None:
    calls: list[str | None] = []

    def handle(_body: bytes, message: Message) -> None:
        calls.append(message.id)
        if len(calls) == 1:
            raise Transient

    publish(client, queue, "m-1")

    work(handle, transient_delay=0.05)

    assert take(client, f"{queue}-results").payload["taskStatus"] == "RESULT_SUCCESS"
    assert calls == ["m-1", "m-1"]
