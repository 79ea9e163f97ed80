"""Install: pip install pika

A consumer of its own that handles each retry once, although a crash of Retrier may send it twice, and confirms it.
It makes its queue. python handle_once.py amqp://guest:guest@127.0.0.1:5672/%2F orders
"""

import sqlite3
import sys
from datetime import UTC, datetime

import pika

ID = "ServiceControl.Retry.UniqueMessageId"

url, queue = sys.argv[1:3]
shop = sqlite3.connect("shop.db")
shop.execute("CREATE TABLE IF NOT EXISTS handled (retry_id TEXT PRIMARY KEY)")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare(queue, durable=True)


def handle(body):
    print(f"handled {body.decode()}", flush=True)


def confirm(headers):
    if ID in headers:  # else it is no retry: nothing waits for its outcome
        said = {
            ID: headers[ID],
            "ServiceControl.Retry.Successful": datetime.now(UTC).isoformat(),
        }
        sent = pika.BasicProperties(headers=said, delivery_mode=2)
        channel.basic_publish("", headers["ServiceControl.Retry.AcknowledgementQueue"], b"", sent)


for method, properties, body in channel.consume(queue):
    headers = properties.headers or {}
    retry_id = headers.get("Retrier.RetryId")
    with shop:  # one transaction: the work, and that it was done
        known = "INSERT OR IGNORE INTO handled VALUES (?)"
        if retry_id is None or shop.execute(known, [retry_id]).rowcount:
            handle(body)
    confirm(headers)  # also one that was done before: its confirmation may have been lost
    channel.basic_ack(method.delivery_tag)
