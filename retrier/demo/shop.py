"""The shop: a producer that fills the queue `orders`, and a worker that empties it."""

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from threading import Event

from retrier.demo.orders import Cause, Order, handle
from retrier.demo.shop_log import ShopLog
from retrier.domain import headers
from retrier.domain.wire import Confirmed, Outgoing
from retrier.errors import BrokerUnavailable
from retrier.transport.embedded import EmbeddedTransport
from retrier.worker import Worker

ORDERS = "orders"
ERRORS = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Producer and worker. `broken` returns the causes that are not repaired yet."""

    broker_url: str
    log: ShopLog
    broken: Callable[[], AbstractSet[Cause]]

    def open(self) -> None:
        """Declare the shop's queues."""
        queues = EmbeddedTransport(self.broker_url).queues()
        queues.declare_error_queue(ORDERS)
        queues.declare_error_queue(ERRORS)
        queues.close()

    def publish(self, orders: tuple[Order, ...]) -> None:
        """Put orders on the queue. Raises BrokerUnavailable."""
        publisher = EmbeddedTransport(self.broker_url).publisher()
        messages = [_make_message(order) for order in orders]
        for outcome in publisher.publish(messages, lambda: None):
            if not isinstance(outcome, Confirmed):
                raise BrokerUnavailable(f"the shop's message was not taken: {outcome.reason}")
        for order in orders:
            self.log.count_published(order.message_id)
        publisher.close()

    def work(self, stop: Event) -> None:
        """Handle orders until `stop` is set; those that fail go to the error queue."""
        worker = Worker(self.broker_url, "shop", error_queue=ERRORS)

        @worker.handler(ORDERS, model=Order)
        def handle_order(order: Order) -> None:
            try:
                handle(order, self.broken())
            except Exception:
                self.log.count_failed(order.message_id)
                raise
            self.log.count_handled(order.message_id)

        worker.run(stop)


def _make_message(order: Order) -> Outgoing:
    kept: Mapping[str, object] = {
        "content-type": "application/json",
        "headers": {headers.MESSAGE_TYPE: f"{order.kind}-order"},
        "properties": {"message_id": order.message_id, "delivery_mode": 2},
    }
    return Outgoing(queue=ORDERS, raw=json.dumps(kept).encode(), body=order.to_body())
