"""Install: pip install "retrier[dramatiq]"

A task of Dramatiq whose failures go to Retrier. Its worker:

    dramatiq dramatiq_tasks

And an order to pack, which fails until there is a file named stock:

    python -c "import dramatiq_tasks; dramatiq_tasks.pack.send(7)"
"""

import os
from pathlib import Path

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from retrier.integrations.dramatiq import RetrierMiddleware

broker = RabbitmqBroker(url=os.getenv("BROKER_URL", "amqp://guest:guest@127.0.0.1:5672/%2F"))
broker.add_middleware(RetrierMiddleware(error_queue="error"))
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="orders", max_retries=2, min_backoff=100)
def pack(number):
    if not Path("stock").exists():
        raise LookupError("nothing left")
    print(f"order {number} is packed", flush=True)
