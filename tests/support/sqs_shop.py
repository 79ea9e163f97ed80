"""A shop on SQS, as a plain boto3 program: its consumer fails, and SQS moves what failed too often."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from tests.support.sqs_server import SqsServer, arn
from tests.support.waiting import wait_until

TRIES = 3
AT_ONCE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsSent:
    """One message as it is on a queue."""

    body: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None

    def texts(self) -> dict[str, str]:
        """Return the attributes that are texts, and what Retrier has put into one of them."""
        texts = {
            n: each["StringValue"] for n, each in self.attributes.items() if "StringValue" in each
        }
        together: dict[str, str] = json.loads(texts.pop("Retrier.Headers", "{}"))
        return {**texts, **together}


class SqsShop:
    """Queues of one test: orders, whose failures SQS moves to the error queue."""

    def __init__(self, client: Any, name: str, *, fifo: bool = False) -> None:
        self.client = client
        self.name = name
        self._fifo = fifo
        self._urls: dict[str, str] = {}
        self.error = self.declare("error")
        self.orders = self.declare("orders", dead_letters_to=self.error)

    def declare(self, name: str, dead_letters_to: str = "") -> str:
        """Make a queue."""
        queue = f"{self.name}-{name}" + (".fifo" if self._fifo else "")
        attributes = {"FifoQueue": "true"} if self._fifo else {}
        if dead_letters_to:
            policy = {"deadLetterTargetArn": arn(dead_letters_to), "maxReceiveCount": str(TRIES)}
            attributes["RedrivePolicy"] = json.dumps(policy)
        self.client.create_queue(QueueName=queue, Attributes=attributes)
        return queue

    def delete(self, queue: str) -> None:
        """Delete a queue with all it holds."""
        self.client.delete_queue(QueueUrl=self.url(queue))

    def url(self, queue: str) -> str:
        """Return the URL of a queue."""
        if queue not in self._urls:
            self._urls[queue] = str(self.client.get_queue_url(QueueName=queue)["QueueUrl"])
        return self._urls[queue]

    def send(self, messages: Sequence[SqsSent], queue: str = "") -> None:
        """Send orders, or to another queue."""
        entries = [self._entry(number, sent) for number, sent in enumerate(messages)]
        for start in range(0, len(entries), AT_ONCE):
            self.client.send_message_batch(
                QueueUrl=self.url(queue or self.orders), Entries=entries[start : start + AT_ONCE]
            )

    def _entry(self, number: int, sent: SqsSent) -> dict[str, Any]:
        fifo = {"MessageGroupId": sent.group, "MessageDeduplicationId": str(uuid4())}
        return {
            "Id": str(number),
            "MessageBody": sent.body,
            "MessageAttributes": sent.attributes,
            **(fifo if self._fifo else {}),
        }

    def fail(self, count: int = 1, *, group: str | None = None) -> list[SqsSent]:
        """Send orders, fail over each as often as the queue allows, and return what was sent."""
        made = [make_order(number, group) for number in range(count)]
        self.send(made)
        self.fail_all(count)
        return made

    def give_up(self, count: int, exception_type: str) -> list[SqsSent]:
        """Send orders to a consumer that gives each up by itself, and says why."""
        made = [make_order(number) for number in range(count)]
        why = {
            "Retrier.FailedQueue": text(self.orders),
            "Retrier.Exception.Type": text(exception_type),
        }
        self.send(made)
        for each in self.take(count):
            attributes = {**each.attributes, **why}
            self.send([replace(each, attributes=attributes)], queue=self.error)
        return made

    def fail_all(self, count: int) -> None:
        """Fail over what is there until SQS has moved so many to the error queue."""
        before = self.depth(self.error)

        def all_moved() -> bool:
            while self._receive(self.orders, then="fail"):
                pass
            return self.depth(self.error) >= before + count or self.depth(self.orders) == 0

        wait_until(all_moved, 60, "SQS has moved what failed")

    def depth(self, queue: str) -> int:
        """Return how many messages are ready on a queue."""
        name = "ApproximateNumberOfMessages"
        told = self.client.get_queue_attributes(QueueUrl=self.url(queue), AttributeNames=[name])
        return int(told["Attributes"][name])

    def is_empty(self, queue: str) -> bool:
        """Return whether a queue holds nothing, and nobody has anything of it in hand."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        told = self.client.get_queue_attributes(QueueUrl=self.url(queue), AttributeNames=names)
        return all(told["Attributes"][name] in {"0", 0} for name in names)

    def await_orders(self, count: int, deadline: float = 60) -> None:
        """Wait until so many orders are there."""
        wait_until(lambda: self.depth(self.orders) >= count, deadline, f"{count} orders")

    def take(self, count: int, deadline: float = 60) -> list[SqsSent]:
        """Wait for so many orders and take everything that is there."""
        self.await_orders(count, deadline)
        taken: list[SqsSent] = []
        while received := self._receive(self.orders, then="delete"):
            taken += received
        return taken

    def confirm(self, sent: SqsSent) -> None:
        """Say that a retry succeeded."""
        texts = sent.texts()
        headers = {
            "ServiceControl.Retry.Successful": "2026-05-04 13:00:00:000000 Z",
            "ServiceControl.Retry.UniqueMessageId": texts["ServiceControl.Retry.UniqueMessageId"],
        }
        self.client.send_message(
            QueueUrl=self.url(texts["ServiceControl.Retry.AcknowledgementQueue"]),
            MessageBody="-",
            MessageAttributes={name: text(value) for name, value in headers.items()},
        )

    def _receive(self, queue: str, then: str) -> list[SqsSent]:
        url = self.url(queue)
        told = self.client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=AT_ONCE,
            WaitTimeSeconds=0,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        )
        messages = told.get("Messages", [])
        receipts = [
            {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
            for n, each in enumerate(messages)
        ]
        if receipts and then == "delete":
            self.client.delete_message_batch(QueueUrl=url, Entries=receipts)
        elif receipts:
            self.client.change_message_visibility_batch(
                QueueUrl=url, Entries=[{**each, "VisibilityTimeout": 0} for each in receipts]
            )
        return [
            SqsSent(
                body=each["Body"],
                attributes=each.get("MessageAttributes", {}),
                group=each["Attributes"].get("MessageGroupId"),
            )
            for each in messages
        ]


def text(value: str) -> dict[str, str]:
    """Return an attribute that is a text."""
    return {"DataType": "String", "StringValue": value}


def make_order(number: int, group: str | None = None) -> SqsSent:
    """Return an order."""
    return SqsSent(
        body=json.dumps({"order": number, "group": group, "buyer": "Zoë"}, ensure_ascii=False),
        attributes={
            "tenant": text("north"),
            "amount": {"DataType": "Number", "StringValue": "12.50"},
            "seal": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
        group=group,
    )


@contextmanager
def opened_sqs_shop(server: SqsServer, name: str, *, fifo: bool = False) -> Iterator[SqsShop]:
    """Open a shop; its queues, and those with its name, are removed in the end."""
    client = server.client()
    shop = SqsShop(client, name, fifo=fifo)
    yield shop
    for url in client.list_queues(QueueNamePrefix=name.replace(".", "-")).get("QueueUrls", []):
        with suppress(ClientError):
            client.delete_queue(QueueUrl=url)
    client.close()
