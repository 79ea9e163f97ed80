"""Sends messages to queues of SQS, ten at a time, and compares what SQS says it has stored."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from time import monotonic

from retrier.domain.wire import (
    Confirmed,
    Outcome,
    Outgoing,
    Refused,
    Returned,
    Unknown,
    UnreadableProperties,
)
from retrier.errors import AccessRefused, BrokerUnavailable
from retrier.overlap import WhileInFlight, nothing_else
from retrier.transport.seam import Unsettled
from retrier.transport.sqs.address import FIFO
from retrier.transport.sqs.line import (
    THROTTLED,
    Line,
    NotReached,
    QueueGone,
    RequestRefused,
    Throttled,
    why_later,
)
from retrier.transport.sqs.properties import Entry, NotSendable, in_requests, make_entry

AT_ONCE = 10
"""Messages of one request: SQS takes no more."""
IN_PARALLEL = 8
"""Requests at once, to all queues together."""
LOOK_EVERY = 0.5
"""Seconds between two calls of `waiting`."""
BETWEEN_TRIES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Longest pauses in seconds before a throttled request is sent again; the last one repeats."""
TRIES_IN_DOUBT = 4
DOUBT_FOR = 10.0
"""How often a message that may be there twice is sent before it is left in doubt, and for how many
seconds: what has no answer for longer is not waited for again."""
_IN_DOUBT = frozenset({"InternalError", "InternalFailure"})
"""What SQS says of a message that it may have stored all the same."""

_OF_THE_MESSAGE = frozenset(
    {
        "BatchRequestTooLong",
        "InvalidAttributeValue",
        "InvalidMessageContents",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "MissingParameter",
        "UnsupportedOperation",
    }
)
"""What SQS says of a message that it will never take as it is."""

Work = list[list[tuple[int, Entry]]]


class SqsPublisher:
    """Sends windows, with several requests at once; those to a FIFO queue go one after the other."""

    def __init__(self, connect: Callable[[], Line], dice: Callable[[float, float], float]) -> None:
        """Make a client; SQS is not asked. Raises BrokerUnavailable."""
        self._connect = connect
        self._uniform = dice
        self._line: Line | None = connect()
        self._pool = ThreadPoolExecutor(IN_PARALLEL, "sqs publisher")
        self._stop = Event()
        self._blocked: dict[str, str] = {}
        """Queues for which SQS takes nothing for now, and why."""
        self._waits_for: frozenset[str] = frozenset()

    @property
    def awaited(self) -> Unsettled:
        """What is not settled; `blocked` while SQS takes nothing, as when it throttles us."""
        whys = list(self._blocked.values())
        return Unsettled(
            queues=self._waits_for, blocked=bool(whys), why=whys[0] if whys else why_later("")
        )

    def publish(
        self,
        messages: Iterable[Outgoing],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight = nothing_else,
    ) -> tuple[Outcome, ...]:
        """Send all. See the seam. What has no answer is Unknown."""
        line = self._line = self._line or self._connect()
        window = list(messages)
        outcomes: dict[int, Outcome] = {}
        by_queue: dict[str, list[tuple[int, Entry]]] = {}
        for place, each in enumerate(window):
            try:
                entry = make_entry(each, fifo=each.queue.endswith(FIFO))
            except (NotSendable, UnreadableProperties, UnicodeEncodeError) as error:
                outcomes[place] = Refused(str(error), unsendable=True)
            else:
                by_queue.setdefault(each.queue, []).append((place, entry))
        self._waits_for = frozenset(by_queue)
        given_up = Event()
        futures = [
            self._pool.submit(self._send_all, line, queue, work, given_up)
            for queue, entries in by_queue.items()
            for work in _share_out(queue, entries)
        ]
        try:
            self._await(futures, waiting, while_in_flight)
        except BaseException:
            # Somebody else may be the processor now: nothing more of this window goes out.
            given_up.set()
            for future in futures:
                future.cancel()
            raise
        finally:
            self._waits_for = frozenset()
            self._blocked.clear()
        for future in futures:
            outcomes.update(future.result())
        self._ensure_sent(outcomes)
        return tuple(_as_outcome(outcomes[place]) for place in range(len(window)))

    def keep_alive(self) -> None:
        """Do nothing: a connection is made where one is needed."""

    def close(self) -> None:
        """Drop the connections; never hangs, never raises."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _await(
        self,
        futures: Sequence[Future[dict[int, Outcome]]],
        waiting: Callable[[], None],
        while_in_flight: WhileInFlight,
    ) -> None:
        more = True
        while more:
            more = while_in_flight()
        left: Iterable[Future[dict[int, Outcome]]] = futures
        while left:
            _, left = wait(left, LOOK_EVERY)
            if left:
                waiting()

    @staticmethod
    def _ensure_sent(outcomes: dict[int, Outcome]) -> None:
        """Raise BrokerUnavailable if no message of the window can have been sent."""
        unsent = [each for each in outcomes.values() if isinstance(each, _Unsent)]
        others = [each for each in outcomes.values() if not isinstance(each, _Unsent | Refused)]
        if unsent and not others:
            raise BrokerUnavailable(unsent[0].reason)

    def _send_all(self, line: Line, queue: str, work: Work, given_up: Event) -> dict[int, Outcome]:
        """Send some requests to a queue, one after the other; return what became of each message.

        No request begins once its window is given up, or the publisher is closed.
        """
        outcomes: dict[int, Outcome] = {}
        for request in work:
            left = dict(request)
            began = monotonic()
            for tries in range(1_000_000):
                if given_up.is_set() or self._stop.is_set():
                    outcomes.update(dict.fromkeys(left, _Unsent("it was told to stop")))
                    return outcomes
                try:
                    later = self._send(line, queue, left, outcomes)
                except Throttled as error:
                    later = left
                    self._blocked[queue] = why_later(error.code)
                except RequestRefused as error:
                    # Which of them it is that SQS refuses, only a request for each one tells.
                    later = self._send_alone(line, queue, left, outcomes, error)
                except BrokerUnavailable as error:
                    outcomes.update(dict.fromkeys(left, _judge(error)))
                    later = {}
                if not later:
                    self._blocked.pop(queue, None)
                if tries + 1 < TRIES_IN_DOUBT and monotonic() - began < DOUBT_FOR:
                    later |= _take_doubtful(left, outcomes)
                left = later
                if not left:
                    break
                longest = BETWEEN_TRIES[min(tries, len(BETWEEN_TRIES) - 1)]
                self._stop.wait(self._uniform(longest / 2, longest))
        return outcomes

    def _send(
        self, line: Line, queue: str, entries: dict[int, Entry], outcomes: dict[int, Outcome]
    ) -> dict[int, Entry]:
        """Send one request; return what was throttled. Raises BrokerUnavailable."""
        told = [{"Id": str(place), **each.parameters} for place, each in entries.items()]
        answer = line.call_once("SendMessageBatch", queue, Entries=told)
        for each in answer.get("Successful", []):
            place = int(each["Id"])
            why = entries[place].why_not_arrived(each)
            # It is in the queue, and not as it was sent: a person has to look before it is sent again.
            otherwise = f"{line.place} has stored it otherwise than it was sent, so it may have arrived: {why}"
            outcomes[place] = (
                Confirmed() if why is None else Refused(otherwise, may_have_arrived=True)
            )
        later = {}
        for each in answer.get("Failed", []):
            place, code = int(each["Id"]), str(each.get("Code", "")).rpartition(".")[2]
            if code in THROTTLED:
                later[place] = entries[place]
                self._blocked[queue] = why_later(code)
            elif code in _IN_DOUBT:
                outcomes[place] = Unknown(f"{line.place}: {code}: {each.get('Message', '')}")
            else:
                outcomes[place] = Refused(
                    f"{code}: {each.get('Message', '')}", unsendable=code in _OF_THE_MESSAGE
                )
        for place in entries.keys() - outcomes.keys() - later.keys():
            outcomes[place] = Unknown(f"{line.place}: the answer does not name it")
        return later

    def _send_alone(
        self,
        line: Line,
        queue: str,
        entries: dict[int, Entry],
        outcomes: dict[int, Outcome],
        refused: RequestRefused,
    ) -> dict[int, Entry]:
        if len(entries) == 1:
            outcomes.update(dict.fromkeys(entries, _refuse(refused)))
            return {}
        later = {}
        for place, entry in entries.items():
            try:
                later.update(self._send(line, queue, {place: entry}, outcomes))
            except Throttled as error:
                later[place] = entry
                self._blocked[queue] = why_later(error.code)
            except RequestRefused as error:
                outcomes[place] = _refuse(error)
            except BrokerUnavailable as error:
                outcomes[place] = _judge(error)
        return later


class _Unsent(Unknown):
    """Not sent, as no connection could be made: Unknown if others of its window were."""


def _take_doubtful(entries: Mapping[int, Entry], outcomes: dict[int, Outcome]) -> dict[int, Entry]:
    """Take those out of the outcomes that are in doubt, and may be there twice; return them.

    One of many that fails must not have the whole batch staged anew.
    """
    found = {
        place: each
        for place, each in entries.items()
        if each.repeatable and type(outcomes.get(place)) is Unknown
    }
    for place in found:
        del outcomes[place]
    return found


def _refuse(error: RequestRefused) -> Refused:
    return Refused(str(error), unsendable=error.code in _OF_THE_MESSAGE)


def _judge(error: BrokerUnavailable) -> Outcome:
    match error:
        case QueueGone():
            return Returned(str(error))
        case NotReached():
            return _Unsent(str(error))
        case AccessRefused():
            return Refused(str(error))
        case _:
            return Unknown(str(error))


def _as_outcome(outcome: Outcome) -> Outcome:
    return Unknown(outcome.reason) if isinstance(outcome, _Unsent) else outcome


def _share_out(queue: str, entries: Sequence[tuple[int, Entry]]) -> Iterable[Work]:
    """Yield what is sent one after the other: all of a FIFO queue, which keeps order; else a request."""
    requests = list(in_requests(entries, AT_ONCE))
    return [requests] if queue.endswith(FIFO) else [[each] for each in requests]
