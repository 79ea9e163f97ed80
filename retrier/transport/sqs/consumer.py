"""Takes messages off a queue of SQS: a thread polls, another renews the visibility of what is in hand."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any

from retrier.domain.headers import STAGING_ID
from retrier.domain.text import count_messages
from retrier.domain.wire import Delivery
from retrier.errors import BrokerUnavailable
from retrier.transport.sqs.address import name_beside
from retrier.transport.sqs.line import THROTTLED, Line, Throttled
from retrier.transport.sqs.properties import read_message

AT_ONCE = 10
"""Messages of one request: SQS takes no more."""
GATHERING = 0.5
"""Seconds to wait at most for the rest of a batch while a queue has a backlog."""
IN_PARALLEL = 4
"""Requests at once while a queue has a backlog, and while many are settled."""
SURE = 0.9
"""The part of the visibility timeout for which a holder relies on its last sign of life."""
_MAY_FAIL_AGAIN = THROTTLED | {"InternalError", "InternalFailure"}


@dataclass(slots=True)
class Held:
    """A message in hand: its receipt, and until when nobody else is given it (monotonic seconds)."""

    receipt: str
    until: float


class SourceQueues:
    """Looks up which queue dead-letters to a queue, once, for messages that do not say it."""

    def __init__(self, line: Line, queue: str, own_arn: str) -> None:
        """Ask nothing yet."""
        self._line = line
        self._queue = queue
        self._own_arn = own_arn
        self._asked = False
        self._only: str | None = None

    def find_only(self) -> str | None:
        """Return the one queue; None if there are several or none, or if we may not know."""
        if not self._asked:
            self._asked = True
            with suppress(BrokerUnavailable):
                found = self._line.call("ListDeadLetterSourceQueues", self._queue, MaxResults=2)
                urls = found.get("queueUrls", [])
                if len(urls) == 1:
                    account, name = urls[0].split("/")[-2:]
                    start = ":".join(self._own_arn.split(":")[:4])
                    self._only = name_beside(f"{start}:{account}:{name}", self._own_arn)
        return self._only


class SqsConsumer:
    """Holds messages under a visibility timeout; the first error closes it for good."""

    def __init__(self, line: Line, queue: str, prefetch: int) -> None:
        """Consume a queue that exists; `close` closes the line. Raises BrokerUnavailable."""
        self._line = line
        self._queue = queue
        self._prefetch = prefetch
        self._visibility = line.address.visibility
        found = line.call("GetQueueAttributes", queue, AttributeNames=["QueueArn"])
        self._arn: str = found["Attributes"]["QueueArn"]
        self._sources = SourceQueues(line, queue, self._arn)
        self._changed = Condition()
        self._inbox: deque[Delivery] = deque()
        self._held: dict[object, Held] = {}
        self._counted: set[object] = set()
        """What counts against the prefetch: handed over since it was set."""
        self._next = 0
        self._open = True
        self._wanted = False
        self._rested = False
        self._is_busy = False
        """Whether SQS has many more: an answer that is waited for comes at once."""
        self._lost = False
        self._error: BrokerUnavailable | None = None
        self._stop = Event()
        self._gave_back = Event()
        self._pool = ThreadPoolExecutor(IN_PARALLEL, f"sqs {queue}")
        self._threads: list[Thread] = []

    def receive(self, limit: int, timeout: float) -> list[Delivery]:
        """Return up to `limit` messages. Raises BrokerUnavailable. See the seam."""
        deadline = monotonic() + timeout
        with self._changed:
            self._ensure_open()
            self._want()
            while not self._inbox and self._error is None and (left := deadline - monotonic()) > 0:
                self._changed.wait(left)
            # SQS hands out ten at a time. While it has many more, a batch of ten would cost as much as
            # a full one: what is being asked for comes in the time of one answer.
            until = monotonic() + GATHERING
            while self._is_busy and len(self._inbox) < limit and (left := until - monotonic()) > 0:
                self._changed.wait(left)
            if self._inbox:
                return [self._inbox.popleft() for _ in range(min(limit, len(self._inbox)))]
            error = self._error
        if error is not None:
            self.close()
            raise BrokerUnavailable(str(error)) from error
        return []

    def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Delete these messages. Raises BrokerUnavailable.

        SQS may say that it has deleted a message although it was given to somebody else meanwhile.
        So one whose visibility timeout has ended is not deleted: that is an error, and it comes again.
        """
        with self._changed:
            self._ensure_open()
            held = {each.tag: self._held[each.tag] for each in deliveries if each.tag in self._held}
        now = monotonic()
        good = {tag: each.receipt for tag, each in held.items() if each.until > now}
        failed = len(held) - len(good)
        failed += self._settle("DeleteMessageBatch", good, {})
        self._forget(held)
        if failed:
            self.close()
            raise BrokerUnavailable(
                f"{self._line.place}: {count_messages(failed)} of {self._queue} could not be deleted in "
                f"the visibility timeout of {self._visibility} s: others may have what was in hand"
            )

    def surely_holds(self) -> bool:
        """See the seam."""
        margin = (1 - SURE) * self._visibility
        with self._changed:
            if not self._open or self._lost:
                return False
            first = min((each.until for each in self._held.values()), default=None)
        return first is None or monotonic() < first - margin

    def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Let everybody see these messages again, at once. Raises BrokerUnavailable."""
        with self._changed:
            self._ensure_open()
            held = {each.tag: self._held[each.tag] for each in deliveries if each.tag in self._held}
        self._give_back({tag: each.receipt for tag, each in held.items()})
        self._forget(held)

    def cease(self) -> list[Delivery]:
        """Poll no more; return what was handed over. Raises BrokerUnavailable.

        What a poll that is on its way still brings goes back to the queue.
        """
        with self._changed:
            self._ensure_open()
            self._wanted = self._is_busy = False
            left = list(self._inbox)
            self._inbox.clear()
        return left

    def rest(self) -> bool:
        """Poll no more; return whether nothing is in hand. See the seam."""
        with self._changed:
            if not self._open or self._held:
                return False
            self._wanted = False
            self._rested = True
            return True

    def resume(self, prefetch: int) -> None:
        """Allow this many unacknowledged messages from now on, besides those handed out already.

        After a rest SQS is asked whether the queue is still there. Raises BrokerUnavailable.
        """
        if self._rested:
            self._line.call("GetQueueAttributes", self._queue, AttributeNames=["QueueArn"])
        with self._changed:
            self._ensure_open()
            self._rested = False
            self._prefetch = prefetch
            self._counted.clear()
            self._want()

    def keep_alive(self) -> None:
        """Do nothing: the thread of the visibility does it."""

    def close(self) -> None:
        """Give everything back; never raises. What cannot be given back is so when its time is over."""
        with self._changed:
            if not self._open:
                return
            self._open = False
            self._inbox.clear()
            receipts = {tag: each.receipt for tag, each in self._held.items()}
            self._held.clear()
            self._stop.set()
            self._changed.notify_all()
            polls = bool(self._threads)
        try:
            with suppress(BrokerUnavailable, RuntimeError):
                self._give_back(receipts)
        finally:
            self._gave_back.set()
        if not polls:
            self._end()

    def _end(self) -> None:
        self._pool.shutdown(wait=False)
        self._line.close()

    def _ensure_open(self) -> None:
        if not self._open:
            raise BrokerUnavailable(f"{self._line.place}: the consumer of {self._queue} is closed")

    def _want(self) -> None:
        self._wanted = True
        if not self._threads:
            named = {"poll": self._keep_polling, "visibility": self._keep_renewing}
            for name, work in named.items():
                thread = Thread(target=work, name=f"sqs {name} {self._queue}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._changed.notify_all()

    def _forget(self, tags: Iterable[object]) -> None:
        with self._changed:
            for tag in tags:
                self._held.pop(tag, None)
                self._counted.discard(tag)
            self._changed.notify_all()

    @property
    def _room(self) -> int:
        return self._prefetch - len(self._counted)

    def _keep_polling(self) -> None:
        is_full = False
        try:
            while True:
                with self._changed:
                    while self._open and not (self._wanted and self._room > 0):
                        self._changed.wait()
                    if not self._open:
                        return
                    room = self._room
                is_full = self._poll(room, wide=is_full)
        except BrokerUnavailable as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the thread's edge: `receive` would find nothing for ever
            self._fail(BrokerUnavailable(f"{self._line.place}: {type(error).__name__}: {error}"))
        finally:
            # It ends after `close` only, which still needs the pool: without it what was in hand
            # would come back when its time is over.
            self._gave_back.wait()
            self._end()

    def _fail(self, error: BrokerUnavailable) -> None:
        """Have `receive` raise it; what is in hand can be acknowledged until `close`."""
        with self._changed:
            self._error, self._is_busy = error, False
            self._changed.notify_all()
        self._stop.wait()

    def _poll(self, room: int, *, wide: bool) -> bool:
        """Ask for messages; return whether there may be many more."""
        began = monotonic()
        if wide and room > AT_ONCE:
            asked = [AT_ONCE] * min(IN_PARALLEL, room // AT_ONCE)
            parts = list(self._pool.map(self._ask_at_once, asked))
        else:
            asked = [min(AT_ONCE, room)]
            parts = [self._ask(asked[0], self._line.address.wait)]
        messages = [each for part in parts for each in part]
        is_full = len(messages) == sum(asked)
        self._hand_over(messages, began, is_full=is_full)
        return is_full

    def _ask_at_once(self, count: int) -> list[Mapping[str, Any]]:
        return self._ask(count, 0)

    def _ask(self, count: int, wait: int) -> list[Mapping[str, Any]]:
        found = self._line.call(
            "ReceiveMessage",
            self._queue,
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait,
            VisibilityTimeout=self._visibility,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        messages: list[Mapping[str, Any]] = found.get("Messages", [])
        return messages

    def _hand_over(
        self, messages: Sequence[Mapping[str, Any]], began: float, *, is_full: bool
    ) -> None:
        # A long poll may have waited: its messages are ours from when they were found, and not before
        # it began. Their time is counted from then all the same: at most `wait` s too short.
        until = began + self._visibility
        read = [self._read(each) for each in messages]
        with self._changed:
            if self._open and self._wanted:
                for receipt, delivery in read:
                    self._held[delivery.tag] = Held(receipt, until)
                    self._counted.add(delivery.tag)
                    self._inbox.append(delivery)
                self._is_busy = is_full and self._room > AT_ONCE
                self._changed.notify_all()
                return
        with suppress(BrokerUnavailable, RuntimeError):
            self._give_back(dict(enumerate(receipt for receipt, _ in read)))

    def _read(self, message: Mapping[str, Any]) -> tuple[str, Delivery]:
        says = "DeadLetterQueueSourceArn" in message.get("Attributes", {})
        is_copy = STAGING_ID in message.get("MessageAttributes", {})
        only = None if says or is_copy else self._sources.find_only()
        parcel = read_message(message, self._arn, only)
        self._next += 1
        delivery = Delivery(
            tag=self._next,
            queue=self._queue,
            raw=parcel.raw,
            body=parcel.body,
            redelivered=parcel.redelivered,
        )
        return message["ReceiptHandle"], delivery

    def _keep_renewing(self) -> None:
        while not self._stop.wait(self._visibility / 4):
            with self._changed:
                due = monotonic() + 0.7 * self._visibility
                receipts = {
                    tag: each.receipt for tag, each in self._held.items() if each.until < due
                }
            began = monotonic()
            more = {"VisibilityTimeout": self._visibility}
            with suppress(BrokerUnavailable, RuntimeError):
                self._settle("ChangeMessageVisibilityBatch", receipts, more, began)

    def _give_back(self, receipts: Mapping[Any, str]) -> None:
        self._settle("ChangeMessageVisibilityBatch", receipts, {"VisibilityTimeout": 0})

    def _settle(
        self,
        action: str,
        receipts: Mapping[Any, str],
        more: Mapping[str, object],
        renewed_at: float | None = None,
    ) -> int:
        """Ask it for all of these, ten at a time; return for how many it failed.

        Raises BrokerUnavailable.
        """
        parts = list(_in_tens(receipts))

        def work(part: Sequence[tuple[Any, str]]) -> int:
            return self._settle_ten(action, part, more, renewed_at)

        if len(parts) <= 1:
            return sum(map(work, parts))
        return sum(self._pool.map(work, parts))

    def _settle_ten(
        self,
        action: str,
        part: Sequence[tuple[Any, str]],
        more: Mapping[str, object],
        renewed_at: float | None,
    ) -> int:
        """Ask it for ten, and again for those that may succeed later; return how many failed."""
        left = dict(enumerate(part))
        failed = 0
        for pause in self._line.pauses():
            entries = [{"Id": str(n), "ReceiptHandle": each[1], **more} for n, each in left.items()]
            answer = self._line.call(action, self._queue, Entries=entries)
            refused = {int(each["Id"]): str(each.get("Code")) for each in answer.get("Failed", [])}
            if renewed_at is not None:
                self._note([each[0] for n, each in left.items() if n not in refused], renewed_at)
            later = {n for n, code in refused.items() if code.rpartition(".")[2] in _MAY_FAIL_AGAIN}
            failed += len(refused) - len(later)
            self._lost |= renewed_at is not None and len(refused) > len(later)
            left = {n: each for n, each in left.items() if n in later}
            if not left or pause is None or self._stop.wait(pause):
                break
        if left and renewed_at is None:
            raise Throttled(f"{self._line.place}: {action} on {self._queue}: throttled")
        return failed + len(left)

    def _note(self, tags: Sequence[object], renewed_at: float) -> None:
        with self._changed:
            for tag in tags:
                held = self._held.get(tag)
                if held is not None:
                    held.until = renewed_at + self._visibility


def _in_tens(receipts: Mapping[Any, str]) -> Iterator[list[tuple[Any, str]]]:
    every = list(receipts.items())
    return (every[start : start + AT_ONCE] for start in range(0, len(every), AT_ONCE))
