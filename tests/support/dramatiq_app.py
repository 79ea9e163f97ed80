"""Tasks of Dramatiq with Retrier's middleware; `python -m dramatiq tests.support.dramatiq_app`.

The environment says where: BROKER (a URL that pika reads), QUEUE and ERROR_QUEUE.
"""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from retrier.integrations.dramatiq import RetrierMiddleware

broker = RabbitmqBroker(url=os.environ["BROKER"])
broker.add_middleware(RetrierMiddleware(error_queue=os.environ["ERROR_QUEUE"]))
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=os.environ["QUEUE"], max_retries=0)
def reserve(order: object) -> None:
    """Fail."""
    raise ValueError(f"order {order!r}")


@dramatiq.actor(queue_name=os.environ["QUEUE"], max_retries=0)
def send(_order: object) -> None:
    """Succeed."""
