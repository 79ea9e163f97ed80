"""The same shop on SQS, as a plain boto3 program that puts what fails on the error queue itself."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from tests.support.shop import failure_headers
from tests.support.sqs_server import SqsServer
from tests.support.waiting import wait_until

FIFO = ".fifo"
GROUPS = 3
"""In so many groups the messages of a FIFO queue are."""
_AT_ONCE = 10
_READY = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
_TOGETHER = "Retrier.Headers"


@dataclass(frozen=True, slots=True)
class SqsTaken:
    """One message as it is on a queue; its headers are its attributes."""

    headers: dict[str, str]
    body: bytes

    @property
    def properties(self) -> SimpleNamespace:
        return SimpleNamespace(message_id=self.headers.get("NServiceBus.MessageId"))


class SqsQueueShop:
    """Queues of one test on SQS; the counterpart of Shop. With `fifo` all of them are FIFO queues."""

    def __init__(self, client: Any, name: str, *, fifo: bool) -> None:
        self.client = client
        self.channel = self
        self._end = FIFO if fifo else ""
        self.error = self.declare(f"{name}-error{self._end}")
        self.orders = self.declare(f"{name}-orders{self._end}")

    def declare(self, queue: str) -> str:
        """Make a queue."""
        attributes = {"FifoQueue": "true"} if queue.endswith(FIFO) else {}
        self.client.create_queue(QueueName=queue, Attributes=attributes)
        return queue

    def delete(self, queue: str) -> None:
        """Delete a queue with all it holds."""
        self.client.delete_queue(QueueUrl=self._url(queue))

    def queue_purge(self, queue: str) -> None:
        """Empty a queue of what is ready."""
        self._drain(queue.replace(".", "-"))

    def fail(self, count: int = 1, *, queue: str | None = None) -> dict[str, SqsTaken]:
        """Put failed messages on the error queue; return them by message id."""
        failed = [_make_failure(queue or self.orders) for _ in range(count)]
        for number, each in enumerate(failed):
            self._publish(self.error, each.headers, each.body, group=number % GROUPS)
        return {each.headers["NServiceBus.MessageId"]: each for each in failed}

    def put_nonsense(self) -> None:
        """Put a message on the error queue that does not say where it failed."""
        self.put({}, b"?")

    def put(self, headers: Mapping[str, Any], body: bytes) -> None:
        """Put a message with these headers on the error queue."""
        self._publish(self.error, {name: str(each) for name, each in headers.items()}, body)

    def depth(self, queue: str) -> int:
        """Return how many messages a queue has, also in somebody's hands; 0 where there is none."""
        try:
            told = self.client.get_queue_attributes(
                QueueUrl=self._url(queue), AttributeNames=list(_READY)
            )
        except ClientError:
            return 0
        return sum(int(told["Attributes"][name]) for name in _READY)

    def take(self, queue: str, count: int, deadline: float = 60) -> list[SqsTaken]:
        """Wait for so many messages and take everything that is there."""
        wait_until(lambda: self.depth(queue) >= count, deadline, f"{count} messages on {queue}")
        taken: list[SqsTaken] = []

        def is_empty() -> bool:
            taken.extend(self._drain(queue))
            return self.depth(queue) == 0

        wait_until(is_empty, deadline, f"{queue} is empty")
        return taken

    def confirm(self, sent: SqsTaken) -> None:
        """Say that a retry succeeded, as ServiceControl's consumers do."""
        headers = {
            "ServiceControl.Retry.Successful": "2026-05-04 13:00:00:000000 Z",
            "ServiceControl.Retry.UniqueMessageId": sent.headers[
                "ServiceControl.Retry.UniqueMessageId"
            ],
        }
        self._publish(sent.headers["ServiceControl.Retry.AcknowledgementQueue"], headers, b"-")

    def fail_again(self, sent: SqsTaken) -> None:
        """Put a retried message back on the error queue: it has failed once more."""
        headers = {**sent.headers, **_why(self.orders)}
        headers["NServiceBus.TimeOfFailure"] = "2026-05-04 12:30:00:000000 Z"
        own = {n: each for n, each in headers.items() if not n.startswith(_OURS)}
        ours = {n: each for n, each in headers.items() if n.startswith(_OURS)}
        self._publish(self.error, {**own, _TOGETHER: json.dumps(ours)}, sent.body)

    def _publish(
        self, queue: str, headers: Mapping[str, str], body: bytes, *, group: int = 0
    ) -> None:
        fifo = {"MessageGroupId": f"g{group}", "MessageDeduplicationId": str(uuid4())}
        self.client.send_message(
            QueueUrl=self._url(queue),
            MessageBody=body.decode(),
            MessageAttributes={
                name: {"DataType": "String", "StringValue": each} for name, each in headers.items()
            },
            **(fifo if queue.endswith(FIFO) else {}),
        )

    def _url(self, queue: str) -> str:
        return str(self.client.get_queue_url(QueueName=queue)["QueueUrl"])

    def _drain(self, queue: str) -> list[SqsTaken]:
        url, taken = self._url(queue), []
        while messages := self.client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=_AT_ONCE,
            WaitTimeSeconds=0,
            MessageAttributeNames=["All"],
        ).get("Messages", []):
            for each in messages:
                self.client.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                taken.append(_as_taken(each))
        return taken


_OURS = ("Retrier.", "ServiceControl.")


def _why(queue: str) -> dict[str, str]:
    """Return why it failed, in fewer headers than elsewhere: SQS takes ten attributes."""
    left_out = ("NServiceBus.Retries", "NServiceBus.ExceptionInfo.Source")
    return {name: each for name, each in failure_headers(queue).items() if name not in left_out}


def _make_failure(queue: str) -> SqsTaken:
    message_id = str(uuid4())
    headers = {
        "NServiceBus.MessageId": message_id,
        "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop",
        "NServiceBus.ProcessingEndpoint": "Sales",
        **_why(queue),
    }
    return SqsTaken(headers, b'{"order": "%s"}' % message_id.encode())


def _as_taken(message: Mapping[str, Any]) -> SqsTaken:
    attributes = message.get("MessageAttributes", {})
    texts = {n: each["StringValue"] for n, each in attributes.items() if "StringValue" in each}
    together: dict[str, str] = json.loads(texts.pop(_TOGETHER, "{}"))
    return SqsTaken({**texts, **together}, message["Body"].encode())


@contextmanager
def opened_sqs_queue_shop(server: SqsServer, name: str, *, fifo: bool) -> Iterator[SqsQueueShop]:
    """Open a shop; its queues, and those with its name, are removed in the end."""
    client = server.client()
    yield SqsQueueShop(client, name, fifo=fifo)
    for url in client.list_queues(QueueNamePrefix=name).get("QueueUrls", []):
        with suppress(ClientError):
            client.delete_queue(QueueUrl=url)
    client.close()
