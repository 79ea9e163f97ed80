"""Install: pip install pika

Put a failed message on an error queue with plain AMQP 0-9-1. It makes the queue if there is none.

python publish_failed_amqp.py amqp://guest:guest@127.0.0.1:5672/%2F
"""

import sys
import uuid
from datetime import UTC, datetime

import pika

url = sys.argv[1]
queue = sys.argv[2] if len(sys.argv) > 2 else "error"
connection = pika.BlockingConnection(pika.URLParameters(url))
try:
    connection.channel().queue_declare(queue, passive=True)
except pika.exceptions.ChannelClosedByBroker:  # there is no such queue
    connection.channel().queue_declare(queue, durable=True)

channel = connection.channel()
channel.confirm_delivery()
channel.basic_publish(
    exchange="",
    routing_key=queue,
    mandatory=True,
    body=b'{"order": 42}',
    properties=pika.BasicProperties(
        message_id=str(uuid.uuid4()),
        content_type="application/json",
        delivery_mode=2,
        headers={
            "Retrier.FailedQueue": "orders",
            "Retrier.TimeOfFailure": datetime.now(UTC).isoformat(),
            "Retrier.Exception.Type": "TimeoutError",
            "Retrier.Exception.Message": "the stock service did not answer",
            "Retrier.MessageType": "PlaceOrder",
            "Retrier.Endpoint": "shop",
        },
    ),
)
connection.close()
print(f"one failed message is on the queue {queue}")
