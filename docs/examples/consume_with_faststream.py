# Install: pip install 'faststream[rabbit]'
#
# A FastStream application whose middleware confirms retries. It makes its two queues.
#
#     python consume_with_faststream.py amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
#     python consume_with_faststream.py amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
#
# A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
# Then the second one is `fail` or anything else.

import asyncio
import sys
from datetime import UTC, datetime

from faststream import BaseMiddleware
from faststream.rabbit import QueueType, RabbitBroker, RabbitQueue

url = sys.argv[1]
fails = sys.argv[2:3] == ["fail"]
name = sys.argv[3] if len(sys.argv) > 3 else "orders"
ID = "ServiceControl.Retry.UniqueMessageId"
rejected = asyncio.Event()


class ConfirmRetries(BaseMiddleware):
    async def consume_scope(self, call_next, message):
        result = await call_next(message)  # an exception goes on: FastStream rejects the message
        if ID in message.headers:  # else it is no retry: nothing waits for its outcome
            now = datetime.now(UTC).isoformat()
            said = {ID: message.headers[ID], "ServiceControl.Retry.Successful": now}
            to = message.headers["ServiceControl.Retry.AcknowledgementQueue"]
            await broker.publish(b"", to, headers=said, persist=True)
            print(f"confirmed {message.headers[ID]}", flush=True)
        return result


broker = RabbitBroker(url, middlewares=[ConfirmRetries])
dead = RabbitQueue(f"{name}.dead", durable=True)
arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
orders = RabbitQueue(name, durable=True, queue_type=QueueType.CLASSIC, arguments=arguments)


@broker.subscriber(orders)
async def handle(order: dict):
    if fails:
        print(f"rejected {order}", flush=True)
        rejected.set()
        raise RuntimeError("out of stock")
    print(f"handled {order}", flush=True)


async def main():
    async with broker:
        await broker.declare_queue(dead)
        await broker.start()
        if not fails:
            await asyncio.Event().wait()
        await broker.publish({"order": 42}, name, persist=True)  # transient by default
        await rejected.wait()
        await asyncio.sleep(1)  # until FastStream has rejected it


asyncio.run(main())
