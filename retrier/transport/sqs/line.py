"""Asks Amazon SQS, counts what is asked, and says in words what it refuses."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from random import Random
from threading import Event, Lock
from time import time
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSLError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from retrier.errors import AccessRefused, BrokerUnavailable
from retrier.transport.queue_names import SqsName, read_sqs_name, why_no_sqs_queue
from retrier.transport.sqs.address import Address, make_client

THROTTLED = frozenset(
    {
        "KmsThrottled",
        "OverLimit",
        "RequestThrottled",
        "RequestThrottledException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""Codes of errors after which nothing was done, and the same may be asked again later."""
_NOT_THROTTLED = {"OverLimit": "has too much in hand", "ServiceUnavailable": "is not available"}
"""What such a code means where it is not that we ask too often."""
_MISSING = frozenset({"QueueDoesNotExist", "NonExistentQueue"})
_NO_RIGHT = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError"})
_NOBODY = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_LATE = frozenset({"RequestExpired", "RequestTimeTooSkewed"})
_SIGNED_AT = ("Signature expired", "Signature not yet current")
MOST_SKEW = 300.0
"""Seconds by which our clock may differ from theirs: SQS refuses what was signed at another time."""
_TRIES = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class QueueGone(BrokerUnavailable):
    """There is no queue of that name."""


class Throttled(BrokerUnavailable):
    """SQS takes no more requests for now; nothing was done. `code` is its own word for it."""

    def __init__(self, words: str, code: str = "") -> None:
        super().__init__(words)
        self.code = code


class NotReached(BrokerUnavailable):
    """No connection could be made: nothing was sent."""


class RequestRefused(BrokerUnavailable):
    """SQS refuses the request as it is; `code` is its own word for it."""

    def __init__(self, words: str, code: str) -> None:
        super().__init__(words)
        self.code = code


class Requests:
    """How many requests this process has sent, by action. Threads may count at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()

    def add(self, action: str) -> None:
        """Count one."""
        with self._lock:
            self._counts[action] += 1

    def by_action(self) -> Mapping[str, int]:
        """Return the counts so far."""
        with self._lock:
            return dict(self._counts)


class Line:
    """A client. Threads may use it at once; `close` ends what none of them is using."""

    def __init__(
        self, address: Address, requests: Requests, urls: dict[str, str], dice: Random
    ) -> None:
        """Ask nothing yet. `urls` has the URLs of queues, shared by all lines of a transport."""
        self.address = address
        self._requests = requests
        self._urls = urls
        self._dice = dice
        self._client = make_client(address)
        self._closed = Event()

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.address.place

    def call(self, action: str, queue: str, **parameters: Any) -> Any:
        """Ask about a queue; what is throttled is tried again for some seconds.

        Raises QueueGone, Throttled, NotReached, RequestRefused, AccessRefused, BrokerUnavailable.
        """
        for pause in self.pauses():
            try:
                return self.call_once(action, queue, **parameters)
            except Throttled:
                if pause is None or self._closed.wait(pause):
                    raise
        raise AssertionError  # the last pause is None

    def call_once(self, action: str, queue: str, **parameters: Any) -> Any:
        """Ask about a queue, once. Raises what `call` raises."""
        url = self.url_of(queue)
        try:
            return self._ask(action, queue, QueueUrl=url, **parameters)
        except QueueGone:
            self._urls.pop(queue, None)
            raise

    def pauses(self) -> list[float | None]:
        """Return how long to wait after each try that was throttled, in seconds; None: no more.

        They grow, and are random: what is throttled together must not come back together.
        """
        longest = (min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**each) for each in range(_TRIES - 1))
        return [*(self._dice.uniform(each / 2, each) for each in longest), None]

    def url_of(self, queue: str) -> str:
        """Return the URL of a queue. Raises QueueGone, and what `call` raises."""
        known = self._urls.get(queue)
        if known is not None:
            return known
        name = self.name_of(queue)
        owner = {"QueueOwnerAWSAccountId": name.account} if name.account else {}
        found = self._ask("GetQueueUrl", queue, QueueName=name.name, **owner)
        self._urls[queue] = found["QueueUrl"]
        return self._urls[queue]

    def name_of(self, queue: str) -> SqsName:
        """Return how SQS calls a queue. Raises QueueGone if it could have none of that name."""
        name = read_sqs_name(queue, self.address.region)
        if name is None:
            why = why_no_sqs_queue(queue, self.address.region)
            raise QueueGone(f"{self.place}: {why or f'no queue can be called {queue!r}'}")
        return name

    def create(self, queue: str, attributes: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Make a queue. Raises what `call` raises."""
        made = self._ask(
            "CreateQueue",
            queue,
            QueueName=self.name_of(queue).name,
            Attributes=dict(attributes),
            **({"tags": dict(tags)} if tags else {}),
        )
        self._urls[queue] = made["QueueUrl"]

    def forget(self, queue: str) -> None:
        """Forget the URL of a queue that we have deleted."""
        self._urls.pop(queue, None)

    def arn_of(self, queue: str) -> str:
        """Return the ARN of a queue, as far as it is known here."""
        url = self._urls.get(queue)
        name = read_sqs_name(queue, self.address.region)
        account = (
            urlsplit(url).path.split("/")[1] if url and urlsplit(url).path.count("/") > 1 else "*"
        )
        partition = self._client.meta.partition  # China and the government's regions have their own
        called = name.name if name else queue
        return f"arn:{partition}:sqs:{self.address.region}:{account}:{called}"

    def close(self) -> None:
        """Drop the connections; never hangs, never raises."""
        self._closed.set()
        with suppress(Exception):
            self._client.close()

    def _ask(self, action: str, queue: str, **parameters: Any) -> Any:
        self._requests.add(action)
        method = getattr(self._client, _METHODS[action])
        try:
            return method(**parameters)
        except ClientError as error:
            self._refuse(action, queue, error)
        except (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError) as error:
            raise NotReached(f"{self.place}: {error}; is the region right?") from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise AccessRefused(f"{self.place}: no credentials: {error}") from error
        except SSLError as error:
            raise AccessRefused(f"{self.place}: {error}") from error
        except (BotoConnectionError, HTTPClientError, BotoCoreError, OSError) as error:
            raise BrokerUnavailable(f"{self.place}: {error}") from error

    def _refuse(self, action: str, queue: str, error: ClientError) -> None:
        """Raise what an answer means that is an error."""
        told = error.response.get("Error", {})
        # AWS.SimpleQueueService.NonExistentQueue is the same as its last part.
        code = str(told.get("Code", "")).rpartition(".")[2]
        kms = "kms" in str(told.get("Code", "")).lower()
        words = str(told.get("Message") or code)
        arn = self.arn_of(queue)
        named = queue if queue.startswith("arn:") else f"{queue} ({arn})"
        where = f"{self.place}: {action} on {named}"
        if code in THROTTLED:
            what = _NOT_THROTTLED.get(code, "throttled")
            raise Throttled(f"{where}: {what} ({code}): {words}", code) from error
        if kms:
            raise AccessRefused(
                f"{where}: its key in KMS cannot be used ({code}): {words}"
            ) from error
        if code in _MISSING:
            raise QueueGone(f"{self.place}: the queue {queue!r} does not exist") from error
        if code in _LATE or any(each in words for each in _SIGNED_AT):
            raise AccessRefused(f"{where}: {_tell_skew(error)}: {words}") from error
        if code in _NO_RIGHT:
            raise AccessRefused(
                f"{where}: the right sqs:{action.removesuffix('Batch')} is missing: {words}"
            ) from error
        if code in _NOBODY:
            raise AccessRefused(
                f"{where}: the credentials are not taken ({code}): {words}"
            ) from error
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= _SERVERS_FAULT:
            raise BrokerUnavailable(f"{where}: {code}: {words}") from error
        raise RequestRefused(f"{where}: {code}: {words}", code) from error


_SERVERS_FAULT = 500
_METHODS: Mapping[str, str] = {
    "ChangeMessageVisibilityBatch": "change_message_visibility_batch",
    "CreateQueue": "create_queue",
    "DeleteMessage": "delete_message",
    "DeleteMessageBatch": "delete_message_batch",
    "DeleteQueue": "delete_queue",
    "GetQueueAttributes": "get_queue_attributes",
    "GetQueueUrl": "get_queue_url",
    "ListDeadLetterSourceQueues": "list_dead_letter_source_queues",
    "ListQueueTags": "list_queue_tags",
    "ReceiveMessage": "receive_message",
    "SendMessage": "send_message",
    "SendMessageBatch": "send_message_batch",
    "TagQueue": "tag_queue",
}
"""The actions that are used, as IAM names them, and the client's methods."""


def why_later(code: str) -> str:
    """Say in words why nothing is taken for now, by one of these codes."""
    match code:
        case "KmsThrottled":
            return f"KMS takes fewer requests than it is sent ({code})"
        case "OverLimit" | "ServiceUnavailable":
            return f"SQS {_NOT_THROTTLED[code]} ({code})"
        case _:
            return "SQS takes fewer messages than it is sent (throttled)"


def _tell_skew(error: ClientError) -> str:
    """Say by how much our clock differs from theirs, by the date of their answer."""
    dated = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        theirs = parsedate_to_datetime(str(dated)).timestamp()
    except (TypeError, ValueError):
        return "our clock is wrong"
    ahead = time() - theirs
    return f"our clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} theirs"
