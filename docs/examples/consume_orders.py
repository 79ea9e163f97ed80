"""Install: pip install pika

A consumer with a dead-letter queue that confirms retries, in Python. It makes its two queues.

python consume_orders.py amqp://guest:guest@127.0.0.1:5672/%2F fail   sends one order, rejects it
python consume_orders.py amqp://guest:guest@127.0.0.1:5672/%2F        handles orders until Ctrl-C

A third argument names another work queue than `orders`; its dead letters go to that name with `.dead`.
Then the second one is `fail` or anything else.
"""

import sys
import uuid
from datetime import UTC, datetime

import pika

ID = "ServiceControl.Retry.UniqueMessageId"

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


def confirm(headers):
    if ID in headers:  # else it is no retry: nothing waits for its outcome
        now = datetime.now(UTC).isoformat()
        said = {ID: headers[ID], "ServiceControl.Retry.Successful": now}
        sent = pika.BasicProperties(headers=said, delivery_mode=2)
        channel.basic_publish("", headers["ServiceControl.Retry.AcknowledgementQueue"], b"", sent)
        print(f"confirmed {headers[ID]}", flush=True)


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
        confirm(
            properties.headers or {}
        )  # before the ack: after a crash in between, both are done again
        channel.basic_ack(method.delivery_tag)
connection.close()
