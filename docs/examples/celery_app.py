"""Install: pip install retrier[celery]

A Celery app whose failed tasks go to Retrier: celery -A celery_app worker
"""

import os

from celery import Celery

from retrier.integrations.celery import install

app = Celery("shop", broker=os.environ["BROKER_URL"])
install(app, error_queue=os.environ["ERROR_QUEUE"])


@app.task(name="shop.pack")
def pack(number):
    if os.environ.get("BROKEN"):
        raise ValueError(f"order {number} cannot be packed")
    print(f"order {number} is packed", flush=True)
