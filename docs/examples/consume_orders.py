"""Install: pip install pika

A consumer with a dead-letter queue that confirms retries, in Python. It makes its two queues.

python consume_orders.py amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
python consume_orders.py amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C
"""

import sys
import uuid
from datetime import UTC, datetime

import pika

url = sys.argv[1]
fails = sys.argv[2:3] == ["fail"]
queue = sys.argv[3] if len(sys.argv) > 3 else "orders"
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare(f"{queue}.dead", durable=True)
dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{queue}.dead"}
channel.queue_declare(queue, durable=True, arguments=dead_letters)
channel.basic_qos(prefetch_count=10)


def handle(body):
    if fails:
        raise RuntimeError("out of stock")
    print(f"handled {body.decode()}", flush=True)


def confirm(properties):
    headers = properties.headers or {}
    retried = headers.get("ServiceControl.Retry.UniqueMessageId")
    if not retried:  # no retry: Retrier waits for nothing
        return
    confirmation = {
        "ServiceControl.Retry.UniqueMessageId": retried,
        "ServiceControl.Retry.Successful": datetime.now(UTC).isoformat(),  # noqa: TID251 - an example
    }
    channel.basic_publish(
        exchange="",
        routing_key=headers["ServiceControl.Retry.AcknowledgementQueue"],
        body=b"",
        properties=pika.BasicProperties(headers=confirmation, delivery_mode=2),
    )
    print(f"confirmed {retried}", flush=True)


if fails:
    order = pika.BasicProperties(message_id=str(uuid.uuid4()), delivery_mode=2)
    channel.basic_publish("", queue, b'{"order": 42}', order)
for method, properties, body in channel.consume(queue):
    try:
        handle(body)
    except RuntimeError as error:
        channel.basic_nack(method.delivery_tag, requeue=False)  # the broker dead-letters it
        print(f"rejected {body.decode()}: {error}", flush=True)
        if fails:
            break
    else:
        confirm(properties)  # before the ack: after a crash in between, both are done again
        channel.basic_ack(method.delivery_tag)
connection.close()
