"""Install: pip install pika

A consumer of its own that handles each retry once, although a crash of Retrier may send it twice. It makes its
queue. python handle_once.py amqp://guest:guest@127.0.0.1:5672/%2F orders
"""

import sqlite3
import sys

import pika

url, queue = sys.argv[1:3]
shop = sqlite3.connect("shop.db")
shop.execute("CREATE TABLE IF NOT EXISTS handled (retry_id TEXT PRIMARY KEY)")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.queue_declare(queue, durable=True)


def handle(body):
    print(f"handled {body.decode()}", flush=True)


for method, properties, body in channel.consume(queue):
    retry_id = (properties.headers or {}).get("Retrier.RetryId")
    with shop:  # one transaction: the work, and that it was done
        known = "INSERT OR IGNORE INTO handled VALUES (?)"
        if retry_id is None or shop.execute(known, [retry_id]).rowcount:
            handle(body)
    channel.basic_ack(method.delivery_tag)
