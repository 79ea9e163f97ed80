"""Tasks of Dramatiq with Retrier's middleware; `python -m dramatiq tests.support.dramatiq_app`.

The environment says where: BROKER (a URL that pika reads), QUEUE and ERROR_QUEUE; and TAKES: the
seconds that a task takes.
"""

import os
from threading import Event

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from retrier.integrations.dramatiq import RetrierMiddleware

TAKES = float(os.environ.get("TAKES", "0"))

broker = RabbitmqBroker(url=os.environ["BROKER"])
broker.add_middleware(RetrierMiddleware(error_queue=os.environ["ERROR_QUEUE"]))
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=os.environ["QUEUE"], max_retries=0)
def reserve(order: object) -> None:
    """Fail."""
    Event().wait(TAKES)
    raise ValueError(f"order {order!r}")


@dramatiq.actor(queue_name=os.environ["QUEUE"], max_retries=0)
def send(_order: object) -> None:
    """Succeed."""
    Event().wait(TAKES)
