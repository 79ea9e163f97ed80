# Install: pip install taskiq-aio-pika
#
# A Taskiq worker that publishes its failures and confirms retries. Taskiq itself acknowledges a task that
# failed: without the middleware nothing of it is left. It makes its two queues.
#
#     python consume_with_taskiq.py amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, which fails
#     python consume_with_taskiq.py amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
#
# A third argument names another work queue than `orders`; its failures go to that name with `.dead`.
# Then the second one is `fail` or anything else.

import asyncio
import sys
import traceback
from datetime import UTC, datetime

from aio_pika import DeliveryMode, Message
from taskiq import TaskiqMiddleware
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Exchange, Queue, QueueType

url = sys.argv[1]
fails = sys.argv[2:3] == ["fail"]
name = sys.argv[3] if len(sys.argv) > 3 else "orders"
ID = "ServiceControl.Retry.UniqueMessageId"
failed = asyncio.Event()


class Broker(AioPikaBroker):
    """Keeps each delivery until its task has ended: Taskiq hands only the body on."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.delivered = {}

    async def listen(self):
        async for message in super().listen():
            self.delivered[self.formatter.loads(message.data).task_id] = message.ack.__self__
            yield message


class TellRetrier(TaskiqMiddleware):
    async def post_save(self, message, result):  # before the message is acknowledged
        delivered = self.broker.delivered.pop(message.task_id)
        now = datetime.now(UTC).isoformat()
        if result.is_err:
            error = result.error
            told = {"Retrier.FailedQueue": name, "Retrier.TimeOfFailure": now}
            told |= {
                "Retrier.Exception.Type": type(error).__qualname__,
                "Retrier.Exception.Message": str(error),
            }
            told["Retrier.Exception.StackTrace"] = "".join(traceback.format_exception(error))
            told["Retrier.MessageType"] = message.task_name
            await self.publish(
                f"{name}.dead", delivered.body, {**delivered.headers, **told}, message.task_id
            )
        elif ID in delivered.headers:  # else it is no retry: nothing waits for its outcome
            said = {ID: delivered.headers[ID], "ServiceControl.Retry.Successful": now}
            await self.publish(
                delivered.headers["ServiceControl.Retry.AcknowledgementQueue"], b"", said
            )
            print(f"confirmed {delivered.headers[ID]}", flush=True)

    async def publish(self, queue, body, headers, message_id=None):
        sent = Message(
            body, headers=headers, message_id=message_id, delivery_mode=DeliveryMode.PERSISTENT
        )
        await self.broker.write_channel.default_exchange.publish(sent, routing_key=queue)


work, dead = (
    Queue(name=each, type=QueueType.CLASSIC, durable=True) for each in (name, f"{name}.dead")
)
broker = Broker(url, exchange=Exchange(name=name), task_queues=[work], dead_letter_queue=dead)
broker = broker.with_middlewares(TellRetrier())


@broker.task(task_name="handle")
async def handle(order: dict):
    if fails:
        print(f"rejected {order}", flush=True)
        failed.set()
        raise RuntimeError("out of stock")
    print(f"handled {order}", flush=True)


async def main():
    broker.is_worker_process = True
    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker))
    if fails:
        await handle.kicker().with_labels(queue_name=name).kiq({"order": 42})
        await failed.wait()
        await asyncio.sleep(1)  # until it is published and acknowledged
        receiver.cancel()
    else:
        await receiver
    await broker.shutdown()


asyncio.run(main())
