"""Put a failed message on an error queue with Kombu, on any broker Kombu knows.

python publish_failed_kombu.py embedded:///./retrier-data/broker.db
python publish_failed_kombu.py amqp://guest:guest@127.0.0.1:5672//
"""

import sys
import traceback
import uuid
from datetime import UTC, datetime

from kombu import Connection

try:
    import retrier.transport.embedded  # noqa: F401 - teaches Kombu the scheme `embedded`
except ImportError:
    pass

body = b'{"order": 42}'
try:
    raise TimeoutError("the stock service did not answer")
except TimeoutError as error:
    headers = {
        "Retrier.FailedQueue": "orders",
        "Retrier.TimeOfFailure": datetime.now(UTC).isoformat(),  # noqa: TID251 - an example
        "Retrier.Exception.Type": type(error).__name__,
        "Retrier.Exception.Message": str(error),
        "Retrier.Exception.StackTrace": traceback.format_exc(),
        "Retrier.MessageType": "PlaceOrder",
        "Retrier.Endpoint": "shop",
    }

with Connection(sys.argv[1]) as connection:
    # On the embedded broker Retrier declares the queue; to its default exchange a queue is addressed by name.
    connection.Producer().publish(
        body,
        routing_key="error",
        headers=headers,
        message_id=str(uuid.uuid4()),
        content_type="application/json",
        content_encoding="utf-8",
        delivery_mode=2,
    )
print("one failed message is on the queue error")
