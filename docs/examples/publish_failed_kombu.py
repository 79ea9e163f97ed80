"""Install: pip install kombu

Put a failed message on an error queue with Kombu, on any broker that Kombu supports. It makes the
queue if there is none.

python publish_failed_kombu.py embedded:///./retrier-data/broker.db
python publish_failed_kombu.py amqp://guest:guest@127.0.0.1:5672/%2F
"""

import sys
import traceback
import uuid
from datetime import UTC, datetime

from kombu import Connection, Queue

try:
    import retrier.transport.embedded  # registers the scheme `embedded`
except ImportError:
    pass

url = sys.argv[1]
queue = sys.argv[2] if len(sys.argv) > 2 else "error"
body = b'{"order": 42}'
try:
    raise TimeoutError("the stock service did not answer")
except TimeoutError as error:
    headers = {
        "Retrier.FailedQueue": "orders",
        "Retrier.TimeOfFailure": datetime.now(UTC).isoformat(),
        "Retrier.Exception.Type": type(error).__name__,
        "Retrier.Exception.Message": str(error),
        "Retrier.Exception.StackTrace": traceback.format_exc(),
        "Retrier.MessageType": "PlaceOrder",
        "Retrier.Endpoint": "shop",
    }

with Connection(url) as connection:
    try:
        Queue(queue).bind(connection.channel()).queue_declare(passive=True)
    except connection.channel_errors:  # there is no such queue
        Queue(queue, durable=True).bind(connection.channel()).queue_declare()
    # The default exchange sends to the queue named by the routing key.
    connection.Producer().publish(
        body,
        routing_key=queue,
        headers=headers,
        message_id=str(uuid.uuid4()),
        content_type="application/json",
        content_encoding="utf-8",
        delivery_mode=2,
    )
print(f"one failed message is on the queue {queue}")
