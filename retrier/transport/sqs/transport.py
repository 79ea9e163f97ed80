"""Amazon SQS as a transport: what it can do, its queues, and what is made of its address."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any
from uuid import uuid4

from retrier.domain.text import count_messages
from retrier.domain.wire import Outgoing, PropertyCodec
from retrier.errors import AccessRefused, BrokerUnavailable, StagingQueueUnusable
from retrier.transport.capabilities import BY_TIME, Capabilities
from retrier.transport.queue_names import why_no_sqs_queue
from retrier.transport.seam import DeliveryLimit, QueueLook, TrialReport
from retrier.transport.sqs.address import FIFO, VISIBILITY, WAIT, Address, parse_address
from retrier.transport.sqs.consumer import SqsConsumer
from retrier.transport.sqs.line import Line, QueueGone, RequestRefused, Requests
from retrier.transport.sqs.properties import SqsPropertyCodec
from retrier.transport.sqs.publisher import SqsPublisher
from retrier.transport.transports import TransportOptions

CODEC = SqsPropertyCodec()
RETENTION = str(14 * 24 * 3600)
"""Seconds for which a queue that we make keeps its messages: the most that SQS allows."""
TAG = {"Retrier": "staging"}
"""The tag of a staging queue that is ours."""
_KEPT = "MessageRetentionPeriod"
_READY, _HIDDEN = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
_KEY, _OWN_KEY = "KmsMasterKeyId", "alias/aws/sqs"
_EMPTY_ANSWERS = 2
"""A queue counts as empty after so many answers without a message: SQS asks a part of its servers."""

CAPABILITIES = Capabilities(
    broker="Amazon SQS",
    confirms=True,
    returns=True,
    existence=True,
    ordered=False,
    single_consumer=False,
    redelivers=True,
    exact=True,
    visibility=VISIBILITY,
    paid_wait=WAIT,
    told={
        "confirms": "HTTP 200, with the MD5 of body and attributes compared",
        "returns": "an error (`QueueDoesNotExist`)",
        "existence": "`GetQueueUrl`",
        "ordered": "no; a retry to a FIFO queue has its group again",
        "single_consumer": "no: the lease in the database",
        "counting": BY_TIME,
        "exact": "text; in base64 what is none, told by an attribute; attributes exactly",
        "attributes": "10: the headers of a retry share one beside two or more of the sender's",
        "size": "1 MiB with attributes; what is larger is refused before it is sent",
        "visibility": f"stays its own while its visibility timeout of {VISIBILITY} s is renewed",
        "redelivers": "comes back when the visibility timeout ends",
        "durable": "kept",
        "dedup": "arrives twice; with FIFO once, within 5 minutes",
        "delay": "-",
    },
)


class SqsQueues:
    """Looks at queues, and makes the ones Retrier owns."""

    def __init__(self, line: Line) -> None:
        """Ask nothing yet."""
        self._line = line

    def look(self, queue: str) -> QueueLook | None:
        """See the seam; consumers are not counted: SQS knows of none."""
        found = self._find(queue, _READY, _HIDDEN)
        if found is None:
            return None
        return QueueLook(ready=int(found[_READY]), consumers=0, hidden=int(found[_HIDDEN]))

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, approximately, or None when there is no such queue."""
        found = self._find(queue, _READY)
        return None if found is None else int(found[_READY])

    def exists(self, queue: str) -> bool:
        """Return whether there is such a queue. A URL that is known says nothing: it is asked."""
        return self._find(queue, "QueueArn") is not None

    def declare_error_queue(self, queue: str) -> bool:
        """Make it if it is missing; return whether it was missing."""
        if self.exists(queue) or self.why_not_declarable(queue) is not None:
            return False
        fifo = {"FifoQueue": "true"} if queue.endswith(FIFO) else {}
        self._line.create(queue, {_KEPT: RETENTION, **fifo}, {})
        return True

    def why_not_declarable(self, queue: str) -> str | None:
        """Return why there can be no queue of this name; whether we have the right is not tried."""
        return why_no_sqs_queue(queue, self._line.address.region)

    def why_misnamed(self, queue: str) -> str | None:
        """See the seam."""
        return self.why_not_declarable(queue)

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure that it exists as ours. Raises StagingQueueUnusable. See the seam.

        A tag says that it is ours: SQS has no other place for that.
        """
        line = self._line
        ready = self.depth(queue)
        if ready is None:
            line.create(queue, {_KEPT: RETENTION}, TAG)
            return
        tags = line.call("ListQueueTags", queue).get("Tags", {})
        if TAG.items() <= tags.items():
            return
        if ready:
            raise StagingQueueUnusable(
                f"the queue {queue!r} ({line.place}) is not ours and in use: it holds "
                f"{count_messages(ready)}. Empty and delete it, or give this instance another name."
            )
        line.call("TagQueue", queue, Tags=TAG)

    def delivery_limit(self, queue: str) -> DeliveryLimit | None:
        """Return after how many returns its redrive policy moves a message; None if it has none."""
        policy = self._find_redrive(queue)
        most = str(policy.get("maxReceiveCount", "")) if policy else ""
        return DeliveryLimit(most=int(most) - 1) if most.isdecimal() else None

    def dead_letters(self, queue: str) -> bool:
        """Return whether it has a redrive policy, as work queues have."""
        return bool(self._find_redrive(queue))

    def describe_redrive(self, queue: str) -> str | None:
        """See the seam: each receive counts, also ours."""
        policy = self._find_redrive(queue)
        if not policy:
            return None
        most, target = policy.get("maxReceiveCount"), policy.get("deadLetterTargetArn")
        return (
            f"its redrive policy moves what was received more than {most} times to {target}; each end of a "
            "process, and each time that a message could not be stored, is a receive"
        )

    def describe_retention(self, queue: str) -> str | None:
        """See the seam: SQS counts from when a message was first sent, but on FIFO queues."""
        found = self._find(queue, _KEPT) or {}
        kept = str(found.get(_KEPT, RETENTION))
        if not kept.isdecimal() or int(kept) >= int(RETENTION):
            return None
        fifo = queue.endswith(FIFO)
        since = "they were moved here" if fifo else "they were first sent, to whatever queue"
        days, hours = int(kept) / 86_400, int(kept) / 3_600
        shown = f"{days:.3g} days" if days > 1 else f"{hours:.3g} h"
        return (
            f"it keeps messages for {shown} from when {since}: what is not taken by then is gone. "
            "Set its MessageRetentionPeriod to 14 days"
        )

    def why_not_ingestible(self, queue: str) -> str | None:
        """Return why its messages cannot be read and deleted: a right that is missing.

        A receipt that nobody has, and a number of messages that is not allowed, show whether we
        have the rights, and take no message.
        """
        tries: Mapping[str, Mapping[str, Any]] = {
            "ReceiveMessage": {"MaxNumberOfMessages": 11, "VisibilityTimeout": 0},
            "DeleteMessage": {"ReceiptHandle": "none"},
        }
        for action, parameters in tries.items():
            try:
                self._line.call(action, queue, **parameters)
            except AccessRefused as error:
                return str(error)
            except (RequestRefused, QueueGone):
                continue
        return None

    def try_key(self, queue: str, *, is_read: bool) -> str | None:
        """See the seam: only a message tells whether KMS lets us, as SQS asks it for nothing else.

        A queue with a redrive policy is not read: it counts each receive. The key of SQS itself
        needs no right.
        """
        found = self._find(queue, _KEY, _READY, "RedrivePolicy") or {}
        key = found.get(_KEY, "")
        if not key or key == _OWN_KEY:
            return None
        right = "kms:Decrypt" if is_read else "kms:GenerateDataKey"
        unknown = f"its messages have the key {key} of KMS; whether we have {right} for it"
        if not is_read:
            return f"{unknown} only a message that is sent shows"
        if "RedrivePolicy" in found or found.get(_READY) == "0":
            return f"{unknown} was not tried: only a message that is received shows it"
        self._line.call(
            "ReceiveMessage", queue, MaxNumberOfMessages=1, VisibilityTimeout=0, WaitTimeSeconds=0
        )
        return None

    def purge(self, queue: str) -> int:
        """Delete every message that is ready, one by one; return how many.

        SQS has an action for it, which deletes what others have in hand as well, and takes a minute.
        """
        purged = nothing = 0
        while nothing < _EMPTY_ANSWERS:
            found = self._line.call(
                "ReceiveMessage",
                queue,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=0,
                VisibilityTimeout=30,
            ).get("Messages", [])
            entries = [
                {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]}
                for n, each in enumerate(found)
            ]
            if entries:
                answer = self._line.call("DeleteMessageBatch", queue, Entries=entries)
                purged += len(answer.get("Successful", []))
            nothing = 0 if entries else nothing + 1
        return purged

    def find_risks(self) -> tuple[str, ...]:
        """Return nothing: SQS keeps what it has confirmed, until its retention ends."""
        return ()

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        try:
            self._line.call("DeleteQueue", queue)
        except QueueGone:
            return
        self._line.forget(queue)

    def keep_alive(self) -> None:
        """Do nothing: a connection is made where one is needed."""

    def close(self) -> None:
        """Drop the connections; never hangs, never raises."""
        self._line.close()

    def _find(self, queue: str, *names: str) -> Mapping[str, str] | None:
        try:
            found = self._line.call("GetQueueAttributes", queue, AttributeNames=list(names))
        except QueueGone:
            return None
        attributes: Mapping[str, str] = found.get("Attributes", {})
        return attributes

    def _find_redrive(self, queue: str) -> Mapping[str, object]:
        found = self._find(queue, "RedrivePolicy") or {}
        try:
            policy = json.loads(found.get("RedrivePolicy") or "{}")
        except ValueError:
            return {}
        return policy if isinstance(policy, dict) else {}


class SqsTransport:
    """Makes publishers, consumers and looks at queues, each with its own connections."""

    codec: PropertyCodec = CODEC
    user: str | None = None

    def __init__(self, address: Address, dice: Random) -> None:
        """Connect to nothing yet."""
        self._address = address
        self._dice = dice
        self._urls: dict[str, str] = {}
        self._requests = Requests()
        self.capabilities = replace(
            CAPABILITIES, visibility=address.visibility, paid_wait=max(1.0, address.wait)
        )
        self.place = address.place

    def publisher(self, probe: Outgoing | None = None) -> SqsPublisher:  # noqa: ARG002 - see below
        """Make a publisher. Raises BrokerUnavailable.

        The probe is not used: SQS refuses a message that it does not take, and leaves no doubt.
        """
        return SqsPublisher(self._connect, self._dice.uniform)

    def consumer(self, queue: str, prefetch: int) -> SqsConsumer:
        """Connect a consumer of a queue that exists. Raises BrokerUnavailable."""
        line = self._connect()
        try:
            return SqsConsumer(line, queue, prefetch)
        except BrokerUnavailable:
            line.close()
            raise

    def queues(self) -> SqsQueues:
        """Make a looker at queues. Raises BrokerUnavailable."""
        return SqsQueues(self._connect())

    def count_requests(self) -> Mapping[str, int]:
        """Return how many requests this process has sent, by action: AWS charges for each."""
        return self._requests.by_action()

    def try_out(self, staging_queue: str) -> TrialReport:
        """Make, fill, read and delete a queue that nobody else has. Raises BrokerUnavailable."""
        queue = f"{staging_queue.removesuffix('.staging')}-check-{uuid4().hex[:12]}.staging"
        return TrialReport(problems=tuple(self._try(queue)))

    def _try(self, queue: str) -> Iterator[str]:
        queues = self.queues()
        try:
            queues.declare_staging_queue(queue)
            publisher = self.publisher()
            (outcome,) = publisher.publish(
                [Outgoing(queue=queue, raw=CODEC.empty, body=b"")], _do_nothing
            )
            publisher.close()
            if getattr(outcome, "reason", ""):
                yield f"nothing can be sent: {getattr(outcome, 'reason', '')}"
            queues.purge(queue)
            queues.delete(queue)
        except AccessRefused as error:
            yield str(error)
        finally:
            queues.close()

    def _connect(self) -> Line:
        return Line(self._address, self._requests, self._urls, self._dice)


def _do_nothing() -> None:
    """Wait without other work."""


def make_transport(options: TransportOptions) -> SqsTransport:
    """Return the transport; the settings allow only one URL here. Raises ConfigurationError."""
    return SqsTransport(parse_address(options.urls[0], options.kombu), options.dice)
