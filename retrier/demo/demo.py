"""Runs the demo: workspace, shop and service, then the scenario or a wait for a person."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from retrier.clock import SystemClock
from retrier.demo.client import Client, find_url, is_ready
from retrier.demo.hints import make_hints
from retrier.demo.scenario import Scenario
from retrier.demo.shop import Shop, make_orders
from retrier.demo.shop_log import ShopLog
from retrier.demo.workspace import Workspace, temporary_workspace
from retrier.errors import RetrierError, ServiceUnavailable
from retrier.transport.embedded import EmbeddedTransport

ORDERS = 300
_START = 20.0
_POLL = 0.1

Tell = Callable[[str], None]

_OUT_OF_REACH = 3
"""The service's exit code when it cannot work now, such as when its port is taken."""


def run_demo(*, port: int, once: bool, tell: Tell) -> int:
    """Run the demo; return the exit code: 0 if no message is missing, 1 otherwise.

    With `once` it runs the scenario and ends. Else it waits for a signal while a person looks
    around, and returns 0. Raises RetrierError.
    """
    stop = threading.Event()
    _heed_signals(stop)
    with temporary_workspace() as workspace:
        workspace.set_up(0 if once else port)
        tell(f"Retrier's demo: an embedded broker and a database in {workspace.folder}")
        shop = _make_shop(workspace)
        with workspace.running_service() as process, _working(shop):
            url = _wait_until_ready(workspace, process, stop)
            client = Client(url, stop)
            shop.publish(make_orders(ORDERS))
            tell(f"The service listens on {url}; {ORDERS} orders are on the queue `orders`.\n")
            scenario = Scenario(workspace=workspace, shop=shop, client=client, tell=tell)
            try:
                return _run_once(scenario) if once else _wait_for_person(scenario, url, stop)
            finally:
                client.close()


def _run_once(scenario: Scenario) -> int:
    return 0 if scenario.run() else 1


def _wait_for_person(scenario: Scenario, url: str, stop: threading.Event) -> int:
    scenario.show_failures()
    for line in make_hints(url, scenario.workspace.broken_folder):
        scenario.tell(line)
    stop.wait()
    return 0


def _make_shop(workspace: Workspace) -> Shop:
    clock = SystemClock()
    shop = Shop(
        transport=EmbeddedTransport(workspace.broker_url),
        log=ShopLog(),
        broken=workspace.find_broken,
        now=clock.now,
    )
    shop.open()
    return shop


@contextmanager
def _working(shop: Shop) -> Iterator[None]:
    done = threading.Event()
    worker = threading.Thread(target=shop.work, args=(done,), name="worker", daemon=True)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join(5)


def _wait_until_ready(
    workspace: Workspace, process: subprocess.Popen[bytes], stop: threading.Event
) -> str:
    for _ in range(int(_START / _POLL)):
        url = find_url(workspace.log)
        if url is not None and is_ready(url):
            return url
        if process.poll() is not None:
            raise _explain_end(process, workspace.log.read_text())
        if stop.wait(_POLL):
            raise RetrierError("interrupted")
    raise RetrierError(f"the service was not ready within {_START:g} s")


def _explain_end(process: subprocess.Popen[bytes], log: str) -> RetrierError:
    """Return the error: what the service says for people, or its whole log if it says nothing."""
    said = [line for line in log.splitlines() if not line.startswith("{")]
    reason = "\n".join(said or [log])
    if process.returncode == _OUT_OF_REACH:
        return ServiceUnavailable(reason)
    return RetrierError(f"the service did not start:\n{reason}")


def _heed_signals(stop: threading.Event) -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
