"""Install: pip install retrier

A worker in ten lines. python worker.py amqp://guest:guest@127.0.0.1:5672/%2F orders
"""

import sys

from pydantic import BaseModel

from retrier.worker import Worker


class Order(BaseModel):
    number: int


url, queue = sys.argv[1:3]
worker = Worker(url, error_queue="error", output_queue=None)


@worker.handler(queue, model=Order)
def pack(order):
    print(f"order {order.number} is packed", flush=True)


worker.run()
