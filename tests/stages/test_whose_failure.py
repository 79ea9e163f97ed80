"""Consumers that send follow-ups with the headers of a retry: nobody's work is lost for another's."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from retrier.domain import headers
from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Confirmation, Failure
from retrier.domain.retry_operation import RetryTerms
from retrier.domain.wire import Delivery
from retrier.ingestion.parsing import QueueMapping, parse
from retrier.store.redirects import create_redirect
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.bench import QUEUE, Bench
from tests.support.factories import ERROR_QUEUE, FAILED_AT, confirmation
from tests.support.old import settle
from tests.support.policies import SomePolicies, bring_due
from tests.support.raw_messages import raw_properties

CASES = (500, pytest.param(2000, marks=pytest.mark.kills))
"""So many random cases; the first ones are the same."""
ELSEWHERE = ("mail", "lines")
DIALECTS = ("nservicebus", "rabbitmq", "retrier")
CODEC = AmqpPropertyCodec()


@dataclass(frozen=True)
class Sent:
    """A message as a consumer gets or sends it: its headers are the sender's and ours."""

    queue: str
    body: bytes
    message_id: str | None
    headers: Mapping[str, object] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, bytes, object]:
        """What tells it from the other messages of a case."""
        return (self.queue, self.body, self.headers.get("kind"))


def fails(sent: Sent, dialect: str) -> Failure:
    """Return what ingestion makes of it after its consumer gave it up."""
    said: dict[str, object] = dict(sent.headers)
    match dialect:
        case "nservicebus":
            said |= {"NServiceBus.FailedQ": sent.queue}
            said |= {"NServiceBus.MessageId": sent.message_id} if sent.message_id else {}
        case "rabbitmq":
            death = {"queue": sent.queue, "reason": "rejected", "count": 1, "exchange": ""}
            said |= {"x-death": [death], "x-first-death-queue": sent.queue}
        case _:
            time = FAILED_AT.isoformat()
            said |= {"Retrier.FailedQueue": sent.queue, "Retrier.TimeOfFailure": time}
    fields = {"message_id": sent.message_id} if sent.message_id else {}
    delivery = Delivery(
        tag=None,
        queue=ERROR_QUEUE,
        raw=raw_properties(said, **fields),
        body=sent.body,
        redelivered=False,
    )
    made = parse(delivery, CODEC, QueueMapping(queue=ERROR_QUEUE), FAILED_AT)
    assert isinstance(made, Failure), made
    return made


def take(bench: Bench, *queues: str) -> list[Sent]:
    """Take all that lies in these queues off them, as their consumers do."""
    taken = []
    for queue in queues:
        for each in bench.transport.broker.holds(queue):
            found = CODEC.read(each.raw)
            message_id = found.fields.get("message_id") or found.text("NServiceBus.MessageId")
            text = str(message_id) if message_id else None
            taken.append(Sent(queue, each.body, text, dict(found.headers)))
        bench.transport.broker.queues[queue].ready.clear()
    return taken


def retry_all(bench: Bench) -> list[Sent]:
    """Send back all that is unresolved; return what the consumers get."""
    bench.ask_all()
    bench.work()
    return take(bench, QUEUE, *ELSEWHERE)


@pytest.fixture
def bench(database) -> Bench:
    made = Bench(database)
    for queue in ELSEWHERE:
        made.transport.broker.declare(queue)
    return made


def order(body: bytes = b"order", message_id: str | None = "o1") -> Sent:
    return Sent(QUEUE, body, message_id, {"kind": "order"})


def follow_up(handled: Sent, queue: str, body: bytes, **changes: object) -> Sent:
    """Return what a consumer sends that copies all headers, and the id, of what it handles."""
    values = {"message_id": handled.message_id, "headers": handled.headers} | changes
    return Sent(queue, body, **values)  # type: ignore[arg-type] # fields of Sent


def confirm(bench: Bench, handled: Sent) -> None:
    bench.confirm(str(handled.headers[headers.UNIQUE_MESSAGE_ID]))


def test_three_lines_of_a_retried_order_are_three_messages(bench):
    bench.receive(fails(order(), "rabbitmq"))
    (handled,) = retry_all(bench)
    lines = [follow_up(handled, "lines", body) for body in (b"a", b"b", b"c")]

    bench.receive(*[fails(line, "rabbitmq") for line in lines])

    assert len(bench.statuses()) == 4
    assert [each.body for each in retry_all(bench)] == [b"a", b"b", b"c"]


def test_a_follow_up_that_fails_before_its_order_is_confirmed_stays_unresolved(bench):
    bench.receive(fails(order(), "rabbitmq"))
    (handled,) = retry_all(bench)

    bench.receive(fails(follow_up(handled, "mail", b"mail"), "rabbitmq"))
    confirm(bench, handled)

    assert Counter(bench.statuses().values()) == {"resolved": 1, "unresolved": 1}
    assert [each.body for each in retry_all(bench)] == [b"mail"]


def test_an_order_and_its_follow_up_that_both_fail_are_both_sent_back(bench):
    bench.receive(fails(order(), "rabbitmq"))
    (handled,) = retry_all(bench)

    bench.receive(
        fails(follow_up(handled, "mail", b"mail"), "rabbitmq"), fails(handled, "rabbitmq")
    )

    assert {each.body for each in retry_all(bench)} == {b"order", b"mail"}


def test_the_same_message_sent_on_is_not_resolved_by_its_sender(bench):
    bench.receive(fails(order(), "retrier"))
    (handled,) = retry_all(bench)

    bench.receive(fails(follow_up(handled, "mail", handled.body), "retrier"))
    confirm(bench, handled)

    assert [each.queue for each in retry_all(bench)] == ["mail"]


def test_two_messages_with_one_id_and_one_body_are_both_sent_back(bench):
    placed = Sent(QUEUE, b'{"id": 42}', "42", {"Retrier.MessageType": "OrderPlaced"})
    cancelled = Sent(QUEUE, b'{"id": 42}', "42", {"Retrier.MessageType": "OrderCancelled"})

    bench.receive(fails(placed, "retrier"), fails(cancelled, "retrier"))

    types = [each.headers["Retrier.MessageType"] for each in retry_all(bench)]
    assert sorted(map(str, types)) == ["OrderCancelled", "OrderPlaced"]


def test_a_confirmation_resolves_only_what_was_sent(bench):
    placed = Sent(QUEUE, b'{"id": 42}', "42", {"Retrier.MessageType": "OrderPlaced"})
    cancelled = Sent(QUEUE, b'{"id": 42}', "42", {"Retrier.MessageType": "OrderCancelled"})
    bench.receive(fails(placed, "retrier"))
    (handled,) = retry_all(bench)

    bench.receive(fails(cancelled, "retrier"))
    confirm(bench, handled)

    (left,) = retry_all(bench)
    assert left.headers["Retrier.MessageType"] == "OrderCancelled"


def test_a_follow_up_says_whose_stamps_it_carries(bench):
    bench.receive(fails(order(), "rabbitmq"))
    (handled,) = retry_all(bench)

    bench.receive(fails(follow_up(handled, "mail", b"mail"), "rabbitmq"))

    (left,) = [key for key, status in bench.statuses().items() if status == "unresolved"]
    assert bench.message(left)["derived_from"] == handled.headers[headers.UNIQUE_MESSAGE_ID]


@pytest.mark.parametrize("how", ["named by the request", "redirected"])
def test_a_retry_sent_elsewhere_that_fails_there_late_opens_its_message_again(bench, how):
    bench.receive(fails(order(), "retrier"))
    if how == "redirected":
        create_redirect(bench.db, QUEUE, "mail", own_queues=frozenset(), who="ada")
    bench.ask_all(RetryTerms(destination="mail") if how != "redirected" else RetryTerms())
    bench.work()
    (handled,) = take(bench, "mail")
    (unique_id,) = bench.statuses()
    settle(bench.db, Act.RESOLVE, [unique_id])

    bench.receive(fails(handled, "retrier"))

    assert bench.statuses() == {unique_id: "unresolved"}


@dataclass
class Case:
    """One order and what its consumer does while it handles the retry."""

    order: Sent
    dialect: str
    follow_ups: list[tuple[str, bytes, str]]
    order_fails: bool
    order_last: bool

    def received(self, handled: Sent) -> list[Failure | Confirmation]:
        """Return what comes to the error queue, in order."""
        sent: list[Failure | Confirmation] = []
        for queue, body, whose_id in self.follow_ups:
            message_id = {"same": handled.message_id, "new": str(uuid4()), "none": None}[whose_id]
            made = follow_up(handled, queue, body, message_id=message_id)
            if self.dialect == "nservicebus":
                kept = {k: v for k, v in made.headers.items() if k != "NServiceBus.MessageId"}
                made = Sent(queue, body, message_id or handled.message_id, kept)
            sent.append(fails(made, self.dialect))
        unique_id = str(handled.headers[headers.UNIQUE_MESSAGE_ID])
        succeeded = confirmation(unique_id)
        outcome = fails(handled, self.dialect) if self.order_fails else succeeded
        return [*sent, outcome] if self.order_last else [outcome, *sent]

    def expected(self) -> Counter[tuple[str, bytes, bytes]]:
        """Return what has to be sent back, each once: queue, body, order."""
        name = self.order.body
        back = {(queue, body) for queue, body, _ in self.follow_ups}
        if self.order_fails:
            back.add((QUEUE, name))
        return Counter((queue, body, name) for queue, body in back)


def draw(number: int, dice: random.Random) -> Case:
    body = b"order %d" % number
    message_id = None if dice.random() < 0.3 else f"o{number}"
    dialect = dice.choice(DIALECTS)
    if dialect == "nservicebus":
        message_id = f"o{number}"  # without one NServiceBus's headers are not understood
    bodies = [body, b"line %d of %d", b"mail of %d"]
    follow_ups = []
    places = set()
    for line in range(dice.randint(1, 4)):
        chosen = dice.choice(bodies)
        made = chosen if chosen == body else b"line %d of %d" % (line, number)
        queue = dice.choice((QUEUE, *ELSEWHERE))
        # The order itself, on its own queue, cannot be told from a copy of it.
        if (queue, made) == (QUEUE, body) or (queue, made) in places:
            continue
        places.add((queue, made))
        follow_ups.append((queue, made, dice.choice(("same", "new", "none"))))
    sender = {"kind": "order", "order": f"{number}"}
    return Case(
        order=Sent(QUEUE, body, message_id, sender),
        dialect=dialect,
        follow_ups=follow_ups,
        order_fails=dice.random() < 0.5,
        order_last=dice.random() < 0.5,
    )


@pytest.mark.parametrize("count", CASES)
def test_as_many_are_sent_back_as_failed_each_once(bench: Bench, count: int) -> None:
    """Same and other queues, bodies and ids, before and after the outcome, in three dialects."""
    dice = random.Random(31)  # noqa: S311 - the cases are the same in each run
    cases = [draw(number, dice) for number in range(count)]
    for start in range(0, count, 500):
        bench.receive(*[fails(each.order, each.dialect) for each in cases[start : start + 500]])
    handled = {each.body: each for each in retry_all(bench)}
    assert len(handled) == count

    events = [case.received(handled[case.order.body]) for case in cases]
    for place in range(max(map(len, events))):
        each = [told[place] for told in events if len(told) > place]
        for start in range(0, len(each), 500):
            bench.receive(*each[start : start + 500])

    back = Counter(
        (each.queue, each.body, b"order " + str(each.headers["order"]).encode())
        for each in retry_all(bench)
    )
    wanted = sum((case.expected() for case in cases), Counter())
    assert (back - wanted, wanted - back) == (Counter(), Counter())


def test_no_change_of_id_or_body_escapes_the_number_of_attempts(database):
    """Consumers that park each retry with another id, another body, or both, ten times."""
    policies = SomePolicies(attempts=3)
    bench = Bench(database, judge=policies.judging())
    changes: dict[str, Callable[[int], dict[str, str | None]]] = {
        "new": lambda n: {"message_id": f"new{n}"},
        "none": lambda _n: {"message_id": None},
    }
    firsts = [
        Sent(QUEUE, b"%s %d" % (name.encode(), altered), f"{name}{altered}", {"kind": "order"})
        for name in ("same", *changes)
        for altered in (0, 1)
    ]
    bench.receive(*[fails(each, "retrier") for each in firsts])
    sent: Counter[bytes] = Counter()

    for again in range(10):
        bring_due(bench)
        bench.work()
        for got in take(bench, QUEUE):
            case = got.body.rstrip(b"+")
            name, altered = case.decode().split()
            sent[case] += 1
            body = got.body + b"+" if altered == "1" else got.body
            changed = changes[name](again) if name in changes else {}
            bench.receive(fails(follow_up(got, QUEUE, body, **changed), "retrier"))

    assert sent == dict.fromkeys((each.body for each in firsts), 2)
