"""What follows from what became of a message: everything is published and confirmed, then acked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from retrier.clock import Clock
from retrier.domain.wire import (
    Confirmed,
    Outcome,
    Outgoing,
    PropertyCodec,
    Refused,
    Returned,
    UnreadableProperties,
)
from retrier.worker.connections import Connections
from retrier.worker.copies import (
    make_again,
    make_confirmation,
    make_failed,
    make_result,
)
from retrier.worker.hand import Hand, Held
from retrier.worker.log import LOG
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, SecondCopy
from retrier.worker.starts import Starts


@dataclass(slots=True, eq=False)
class Publication:
    """One message to publish. `needed`: without it, nothing is acked. `shorter` fits better."""

    message: Outgoing
    needed: bool = True
    shorter: Outgoing | None = None


@dataclass(slots=True, eq=False)
class Settlement:
    """A message in hand, and what is still to be published for it."""

    held: Held
    left: list[Publication] = field(default_factory=list)


class Settlements:
    """All messages that are done with, and not acked yet."""

    def __init__(
        self,
        options: Options,
        codec: PropertyCodec,
        own_user: str | None,
        clock: Clock,
        hand: Hand,
        starts: Starts,
    ) -> None:
        self._options = options
        self._hand = hand
        self._starts = starts
        self._codec = codec
        self._own_user = own_user
        self._clock = clock
        self.open: list[Settlement] = []
        self.why: str | None = None
        """What keeps the open ones from being settled; None if nothing was tried in vain."""

    def add(self, held: Held, ended: Ended) -> None:
        """Note what became of a message."""
        self._add(Settlement(held, self._publications(held, ended)))

    def add_again(self, held: Held) -> None:
        """Have a message put to the tail of its queue, with what is counted of it."""
        again = make_again(self._codec, held, self._own_user)
        self._add(Settlement(held, [Publication(again)]))

    def result_of(self, held: Held, ended: Done) -> bytes:
        """Return the body of the result, for the second copy of this retry."""
        return make_result(self._codec, held, ended, "", self._name(held)).body

    def settle(self, line: Connections, waiting: Callable[[], None]) -> None:
        """Publish what is to be published, and ack what is complete. Raises BrokerUnavailable."""
        batch = list(self.open)  # while the broker takes its time, more may be added
        if not any(settlement.left for settlement in batch):
            self.open.clear()
            self.why = None
            self._acknowledge(line, batch)
            return
        publications = [each for settlement in batch for each in settlement.left]
        outcomes = line.publish([each.message for each in publications], waiting)
        found = {id(each): outcome for each, outcome in zip(publications, outcomes, strict=True)}
        problems: list[str] = []
        for settlement in batch:
            kept = [(each, self._judge(each, found[id(each)])) for each in settlement.left]
            settlement.left = [each for each, problem in kept if problem is not None]
            problems += [problem for _, problem in kept if problem is not None]
        complete = [settlement for settlement in batch if not settlement.left]
        self._acknowledge(line, complete)
        self.open = [settlement for settlement in self.open if settlement not in complete]
        self.why = problems[0] if problems else None

    def _acknowledge(self, line: Connections, complete: Sequence[Settlement]) -> None:
        line.ack([settlement.held for settlement in complete])
        for settlement in complete:
            self._starts.settle(settlement.held.place)
        self._hand.settle(len(complete))

    def fall_back(self, keeps_place: Callable[[Held], bool]) -> None:
        """Have what cannot be settled put to the tail: a stop must not count it.

        A message that is to keep its place stays as it is.
        """
        for settlement in self.open:
            held = settlement.held
            if not keeps_place(held):
                again = make_again(self._codec, held, self._own_user)
                settlement.left = [Publication(again)]

    def drop(self) -> None:
        """Forget all: the line is gone, and the broker hands these messages out again."""
        self.open = []
        self.why = None

    def _add(self, settlement: Settlement) -> None:
        self.open.append(settlement)
        self._hand.unsettle()

    def _name(self, held: Held) -> str:
        return self._options.name or held.handler.name

    def _publications(self, held: Held, ended: Ended) -> list[Publication]:
        match ended:
            case Done() | SecondCopy():
                return [*self._result(held, ended), *self._confirmation(held)]
            case Broken():
                return [*self._result(held, ended), self._failure(held, ended)]
            case Postponed():
                again = make_again(self._codec, held, self._own_user)
                return [Publication(again)]
            case _ as never:
                assert_never(never)

    def _result(self, held: Held, ended: Done | Broken | SecondCopy) -> list[Publication]:
        queue = self._options.output_queue
        if queue is None:
            return []
        return [Publication(make_result(self._codec, held, ended, queue, self._name(held)))]

    def _confirmation(self, held: Held) -> list[Publication]:
        made = make_confirmation(self._codec, held.properties, self._clock.now())
        return [] if made is None else [Publication(made, needed=False)]

    def _failure(self, held: Held, broken: Broken) -> Publication:
        queue = self._options.error_queue

        def make(failed: Held, *, in_short: bool) -> Outgoing:
            return make_failed(
                self._codec,
                failed,
                broken,
                queue=queue,
                worker=self._name(held),
                at=self._clock.now(),
                own_user=self._own_user,
                in_short=in_short,
            )

        try:
            return Publication(make(held, in_short=False), shorter=make(held, in_short=True))
        except UnreadableProperties:
            # Retrier keeps what it cannot read, with the reason: better than nothing at all. A broker
            # that refuses it gets the body without them; else it would be tried for ever.
            raw, body = held.delivery.raw, held.delivery.body
            bare = replace(held, delivery=replace(held.delivery, raw=self._codec.empty))
            unchanged = Outgoing(queue=queue, raw=raw, body=body)
            return Publication(unchanged, shorter=make(bare, in_short=True))

    def _judge(self, publication: Publication, outcome: Outcome) -> str | None:
        """Return why the publication has to be tried again; None if it is done with."""
        queue = publication.message.queue
        match outcome:
            case Confirmed():
                return None
            case Returned(reason):
                problem = f"the queue {queue} is missing ({reason})"
            case Refused(reason):
                problem = f"the queue {queue} does not take it: {reason}"
            case _:
                problem = f"the queue {queue}: {outcome.reason}"
        if not publication.needed:
            LOG.warning("a confirmation was not sent, the work is done: %s", problem)
            return None
        if publication.shorter is not None and isinstance(outcome, Refused):
            publication.message, publication.shorter = publication.shorter, None
        return problem
