"""Runs the demo: workspace, shop and service, then the scenario or a wait for a person."""

import logging
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from retrier.app.process import StopSignals
from retrier.demo.client import Client, find_url, is_ready
from retrier.demo.hints import make_hints
from retrier.demo.orders import make_orders
from retrier.demo.scenario import Scenario
from retrier.demo.shop import Shop
from retrier.demo.shop_counts import counting
from retrier.demo.shop_log import ShopLog
from retrier.demo.workspace import Workspace, temporary_workspace
from retrier.errors import RetrierError, ServiceUnavailable

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
    # A second one changes nothing: the service beside has to be ended well.
    StopSignals(lambda _name: stop.set(), again=lambda: None).listen()
    # Of what fails, the demo tells in its own words.
    logging.getLogger("retrier.worker").setLevel(logging.CRITICAL)
    with temporary_workspace() as workspace:
        workspace.set_up(0 if once else port)
        shop = _make_shop(workspace)
        with workspace.running_service() as process, working(shop, workspace):
            url = _wait_until_ready(workspace, process, stop)
            tell(f"Open {url}/demo\n" if not once else f"The page is at {url}/\n")
            tell(f"Retrier's demo: an embedded broker and a database in {workspace.folder}")
            client = Client(url, stop)
            shop.publish(make_orders(ORDERS))
            tell(f"{ORDERS} orders are on the queue `orders` of a small shop.\n")
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
    shop = Shop(broker_url=workspace.broker_url, log=ShopLog(), broken=workspace.find_broken)
    shop.open()
    return shop


@contextmanager
def working(shop: Shop, workspace: Workspace) -> Iterator[None]:
    """Let the worker of the shop work, and write down what it counts."""
    done = threading.Event()
    worker = threading.Thread(target=shop.work, args=(done,), name="worker", daemon=True)
    worker.start()
    try:
        with counting(shop.log, workspace.counts):
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
