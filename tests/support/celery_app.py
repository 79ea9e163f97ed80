"""A Celery app with Retrier installed, as a user would write it; tests start workers of it.

The environment says where: BROKER, QUEUE, ERROR_QUEUE, BACKEND for results, perhaps the NAME of the
application for Retrier, VISIBILITY (seconds after which Redis gives out again what a dead worker had),
and the folder TOLD where tasks write down what they were given. TAKES: the
seconds that some tasks take. A file `broken` there makes `pack` fail; a file named
`die after` and a deed kills the worker with SIGKILL, before Celery acknowledges.
"""

import os
import signal
import sys
from pathlib import Path
from threading import Event
from typing import Any

from celery import Celery
from celery.exceptions import Reject

from retrier.integrations.celery import install
from retrier.integrations.steps import noting_steps

TOLD = Path(os.environ["TOLD"])

TAKES = float(os.environ.get("TAKES", "0"))

BACKEND = os.environ.get("BACKEND")

app = Celery("shop", broker=os.environ["BROKER"], backend=BACKEND)
app.conf.update(
    accept_content=["json", "pickle"],
    broker_connection_retry_on_startup=True,
    task_default_queue=os.environ["QUEUE"],
    task_default_queue_type=os.environ.get("QUEUE_TYPE", "classic"),
    task_ignore_result=BACKEND is None,
    task_serializer=os.environ.get("SERIALIZER", "json"),
    worker_enable_prefetch_count_reduction="REDUCES_NOTHING" not in os.environ,
    worker_enable_remote_control=False,
    worker_lost_wait=0.1,
    worker_send_task_events=False,
)


def count(deed: str, task: str) -> None:
    """Note what was published, for the test to read."""
    tell(f"{deed} {task}")
    order = TOLD / f"die after {deed}"
    if order.exists():
        order.unlink()
        os.killpg(0, signal.SIGKILL)


if "VISIBILITY" in os.environ:
    app.conf.broker_transport_options = {
        "visibility_timeout": int(os.environ["VISIBILITY"]),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        # Who is killed while it gives messages out again keeps all others from it for so long.
        "unacked_mutex_expire": 5,
    }

if "NAME" in os.environ:
    install(app, os.environ["ERROR_QUEUE"], metrics=count, name=os.environ["NAME"])
else:
    install(app, error_queue=os.environ["ERROR_QUEUE"], metrics=count)


class Unpaid(Exception):
    """What is wrong with an order."""


def tell(line: str) -> None:
    """Add a line to what the test reads."""
    file = os.open(TOLD / "lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def pack_or_fail(task: Any, order: object) -> str:
    """Pack it, unless the shop is broken."""
    tell(f"run {task.request.id} {order!r}")
    if (TOLD / "broken").exists():
        raise Unpaid(f"order {order!r}")
    tell(f"packed {task.request.id} {order!r}")
    return "packed"


@app.task(
    name="shop.pack", bind=True, autoretry_for=(Unpaid,), max_retries=2, default_retry_delay=0
)
def pack(self: Any, order: object) -> str:
    """Fail twice by its own retries, and then for good."""
    return pack_or_fail(self, order)


@app.task(name="shop.pack_late", bind=True, acks_late=True, max_retries=2)
def pack_late(self: Any, order: object) -> str:
    """Do the same, acknowledged after the work."""
    try:
        return pack_or_fail(self, order)
    except Unpaid as error:
        raise self.retry(exc=error, countdown=0) from error


@app.task(name="shop.reject", acks_late=True)
def reject(order: object) -> None:
    """Reject it."""
    Event().wait(TAKES)
    raise Reject(Unpaid(f"order {order!r}"))


@app.task(name="shop.die")
def die(order: object) -> None:
    """End the child process."""
    tell(f"dying {order!r}")
    os._exit(9)


@app.task(name="shop.hang", bind=True, acks_late=True)
def hang(self: Any, order: object) -> None:
    """Take long, until somebody says go."""
    tell(f"hang {self.request.id} {order!r}")
    if not (TOLD / "go").exists():
        Event().wait(60)
    pack_or_fail(self, order)


@app.task(name="shop.dawdle", time_limit=1)
def dawdle(_order: object) -> None:
    """Take longer than it may."""
    Event().wait(30)


@app.task(name="shop.dawdle_and_return", time_limit=1, acks_late=True, acks_on_timeout=False)
def dawdle_and_return(_order: object) -> None:
    """Take longer than it may, and be given back to the queue; then do nothing."""
    if (TOLD / "dawdled").exists():
        tell("came again")
        return
    (TOLD / "dawdled").touch()
    Event().wait(30)


@app.task(name="shop.leave", acks_late=True)
def leave(_order: object) -> None:
    """Want to end the process."""
    sys.exit(3)


@app.task(name="shop.interrupt")
def interrupt(_order: object) -> None:
    """Do as if somebody had pressed Ctrl+C."""
    raise KeyboardInterrupt


@app.task(name="shop.reserve")
def reserve(order: object) -> None:
    """Do two steps, and fail at the third."""
    Event().wait(TAKES)
    with noting_steps() as done:
        done("reserve")
        done("pay")
        raise Unpaid(f"order {order!r}")


@app.task(name="shop.send")
def send(packed: object) -> None:
    """Be the next of a chain."""
    Event().wait(TAKES)
    tell(f"sent {packed!r}")


@app.task(name="shop.tell_of")
def tell_of(_context: object, *_: object) -> None:
    """Be told of a failure."""
    tell("told of a failure")


@app.task(name="shop.sum_up")
def sum_up(results: list[str]) -> None:
    """Be the body of a chord."""
    tell(f"summed up {results}")


@app.task(name="shop.revise", bind=True)
def revise(self: Any, order: object) -> None:
    """Fail once; then hand the work on to another task."""
    tell(f"revise {self.request.id}")
    if (TOLD / "broken").exists():
        raise Unpaid(f"order {order!r}")
    raise self.replace(send.s(order))
