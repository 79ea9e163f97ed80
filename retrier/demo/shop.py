"""The shop: its orders, a producer that fills the queue `orders`, and a worker that empties it."""

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from threading import Event

from retrier.demo.shop_log import ShopLog
from retrier.domain import headers
from retrier.domain.dialects import retrier as names
from retrier.domain.wire import Confirmed, Delivery, Edit, Outgoing
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Publisher, Transport


class Cause(StrEnum):
    """A thing that is broken in the shop until somebody repairs it."""

    PAYMENTS_DOWN = "payments-down"
    GIFT_BUG = "gift-bug"
    BAD_INPUT = "bad-input"


REPAIRS = {
    Cause.PAYMENTS_DOWN: "the payment service is started again",
    Cause.GIFT_BUG: "a fix for gift orders is deployed",
    Cause.BAD_INPUT: "orders without items are accepted as empty parcels",
}
"""The repair that the removal of each cause stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One message on the queue `orders`."""

    number: int
    kind: str
    paid_by: str
    items: int

    @property
    def message_id(self) -> str:
        """The message id that the producer sets."""
        return f"order-{self.number:04d}"

    def to_body(self) -> bytes:
        """Return the body of its message."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFailure:
    """Why an order cannot be handled now."""

    exception_type: str
    message: str
    stack_trace: str


def from_body(body: bytes) -> Order:
    """Return the order in the body of a message."""
    return Order(**json.loads(body))


def make_orders(count: int) -> tuple[Order, ...]:
    """Return orders: some fail for each cause, and most do not fail."""
    return tuple(
        Order(
            number=number,
            kind="gift" if number % 7 == 0 else "parcel",
            paid_by="card" if number % 3 == 0 else "invoice",
            items=0 if number % 25 == 0 else 1 + number % 4,
        )
        for number in range(1, count + 1)
    )


def handle(order: Order, broken: AbstractSet[Cause]) -> OrderFailure | None:
    """Handle an order; return why it fails, or None."""
    if order.items == 0 and Cause.BAD_INPUT in broken:
        return _fail("BadOrder", "an order needs at least one item", "validate")
    if order.kind == "gift" and Cause.GIFT_BUG in broken:
        return _fail("KeyError", "'wrapping'", "wrap_gift")
    if order.paid_by == "card" and Cause.PAYMENTS_DOWN in broken:
        return _fail("ConnectionRefusedError", "payments.example:443 refused", "charge_card")
    return None


def _fail(exception: str, message: str, function: str) -> OrderFailure:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "shop/orders.py", line 12, in handle\n'
        f"    {function}(order)\n"
        f'  File "shop/orders.py", line 34, in {function}\n'
        f"    raise {exception}(...)\n"
        f"{exception}: {message}\n"
    )
    return OrderFailure(exception_type=exception, message=message, stack_trace=trace)


ORDERS = "orders"
ERRORS = "error"

_AT_ONCE = 50
_POLL = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Producer and worker. `broken` returns the causes that are not repaired yet."""

    transport: Transport
    log: ShopLog
    broken: Callable[[], AbstractSet[Cause]]
    now: Callable[[], datetime]

    def open(self) -> None:
        """Declare the shop's queue."""
        queues = self.transport.queues()
        queues.declare_error_queue(ORDERS)
        queues.close()

    def publish(self, orders: tuple[Order, ...]) -> None:
        """Put orders on the queue. Raises BrokerUnavailable."""
        publisher = self.transport.publisher()
        _send(publisher, [_make_message(order) for order in orders])
        for order in orders:
            self.log.count_published(order.message_id)
        publisher.close()

    def work(self, stop: Event) -> None:
        """Handle orders until `stop` is set; those that fail are sent to the error queue."""
        consumer = self.transport.consumer(ORDERS, _AT_ONCE)
        publisher = self.transport.publisher()
        while not stop.is_set():
            for delivery in consumer.receive(_AT_ONCE, _POLL):
                self._handle(delivery, publisher)
                consumer.ack([delivery])
        consumer.close()
        publisher.close()

    def _handle(self, delivery: Delivery, publisher: Publisher) -> None:
        order = from_body(delivery.body)
        failure = handle(order, self.broken())
        if failure is not None:
            _send(publisher, [self._make_failed(delivery, failure)])
            self.log.count_failed(order.message_id)
            return
        confirmation = self._make_confirmation(delivery)
        if confirmation is not None:
            _send(publisher, [confirmation])
        self.log.count_handled(order.message_id)

    def _make_failed(self, delivery: Delivery, failure: OrderFailure) -> Outgoing:
        """Return the message for the error queue: as it was, with headers about the failure."""
        why = {
            names.FAILED_QUEUE: ORDERS,
            names.TIME_OF_FAILURE: self.now().isoformat(),
            f"{names.EXCEPTION}Type": failure.exception_type,
            f"{names.EXCEPTION}Message": failure.message,
            f"{names.EXCEPTION}StackTrace": failure.stack_trace,
        }
        raw = self.transport.codec.edit(delivery.raw, Edit(set_headers=why))
        return Outgoing(queue=ERRORS, raw=raw, body=delivery.body)

    def _make_confirmation(self, delivery: Delivery) -> Outgoing | None:
        """Return the confirmation of a retry that succeeded; None if the message is no retry."""
        properties = self.transport.codec.read(delivery.raw)
        unique_id = properties.text(headers.UNIQUE_MESSAGE_ID)
        queue = properties.text(headers.ACKNOWLEDGEMENT_QUEUE)
        if unique_id is None or queue is None:
            return None
        stamps = {
            headers.RETRY_SUCCESSFUL: self.now().isoformat(),
            headers.UNIQUE_MESSAGE_ID: unique_id,
        }
        raw = self.transport.codec.edit(self.transport.codec.empty, Edit(set_headers=stamps))
        return Outgoing(queue=queue, raw=raw, body=b"")


def _make_message(order: Order) -> Outgoing:
    kept: Mapping[str, object] = {
        "content-type": "application/json",
        "headers": {headers.MESSAGE_TYPE: f"{order.kind}-order", headers.ENDPOINT: "shop"},
        "properties": {"message_id": order.message_id, "delivery_mode": 2},
    }
    return Outgoing(queue=ORDERS, raw=json.dumps(kept).encode(), body=order.to_body())


def _send(publisher: Publisher, messages: list[Outgoing]) -> None:
    for outcome in publisher.publish(messages, lambda: None):
        if not isinstance(outcome, Confirmed):
            raise BrokerUnavailable(f"the shop's message was not taken: {outcome.reason}")
