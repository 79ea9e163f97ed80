"""Runs the demo: workspace, shop and service, then the scenario or a wait for a person."""

import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from shutil import which

from retrier.app.process import StopSignals
from retrier.demo.orders import REPAIRS, Defect, make_orders
from retrier.demo.shop import (
    Book,
    Client,
    ListedGroup,
    Shop,
    ShopLog,
    compare,
    counting,
    find_url,
    is_ready,
)
from retrier.demo.workspace import Workspace, temporary_workspace
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.errors import RetrierError, ServiceUnavailable

_COMMANDS = (
    ("groups", "what failed, by cause"),
    ("errors list", "what failed, one by one"),
    ("retry --group ID --watch", "send a group back"),
)
"""Commands to try, and what each shows."""


def make_hints(url: str, broken_folder: Path) -> Iterator[str]:
    """Yield the lines; `url` is where the service listens, `broken_folder` has a file per cause."""
    yield "\nIt is yours now. From a second terminal:\n"
    if not url.endswith(":33333"):
        yield f"  export RETRIER_URL={url}"
    command = find_command()
    for arguments, purpose in _COMMANDS:
        yield f"  {command} {arguments}"
        yield f"      {purpose}"
    yield "\nNothing is repaired yet. Each cause is a file; remove it, then retry its group:\n"
    for cause in Defect:
        yield f"  rm {broken_folder}/{cause}"
        yield f"      {REPAIRS[cause]}"
    yield "\nCtrl-C ends the demo and removes the folder."


def find_command(executable: str = sys.executable, path: str | None = None) -> str:
    """Return the command line of Retrier as it works in another terminal.

    `retrier` alone does if a shell finds it in `path`, by default that of this process. From an
    environment that is not active it is the path of the script.
    """
    if which("retrier", path=path):
        return "retrier"
    script = Path(executable).with_name("retrier")
    return quote(str(script)) if script.exists() else f"{quote(executable)} -m retrier"


Tell = Callable[[str], None]

_TIMEOUT = 20.0
"""Seconds each step of the scenario may take."""

_WORDS_OF = {
    Defect.GIFT_BUG: "KeyError",
    Defect.PAYMENTS_DOWN: "ConnectionRefusedError",
    Defect.BAD_INPUT: "BadOrder",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The parts of the demo, and `tell`, which prints a line."""

    workspace: Workspace
    shop: Shop
    client: Client
    tell: Tell

    def run(self) -> bool:
        """Run the scenario; return whether nothing is missing at the end. Raises RetrierError."""
        self.show_failures()
        self._repair_and_retry(Defect.GIFT_BUG)
        self._repair_and_retry(Defect.PAYMENTS_DOWN)
        return self._close_the_books()

    def show_failures(self) -> None:
        """Wait until every failure is stored, and show them by cause."""
        self.client.wait_for("every order was tried", self._is_everything_tried, _TIMEOUT)
        self.client.wait_for("every failure is stored", self._is_everything_stored, _TIMEOUT)
        book = self.shop.log.read()
        self.tell(
            f"{len(book.published)} orders: {len(book.handled)} handled, {len(book.failed)} failed."
        )
        self._show_groups()

    def _repair_and_retry(self, cause: Defect) -> None:
        before = self.shop.log.read()
        self.workspace.repair(cause)
        self.tell(f"\nRepaired: {REPAIRS[cause]}.")
        group = self._find_group(cause)
        self.tell(f"Retrying the group “{group.title}”: {count_messages(group.count)}.")
        operation = self.client.retry_group(group.group_id)
        self.client.wait_for(
            "the retry is done", lambda: self.client.is_complete(operation), _TIMEOUT
        )
        self.client.wait_for(
            "every retry had its outcome", lambda: self._had_outcomes(before, group), _TIMEOUT
        )
        self.client.wait_for("the outcomes are stored", self._is_everything_stored, _TIMEOUT)
        self._show_outcome(before, group)

    def _show_outcome(self, before: Book, group: ListedGroup) -> None:
        after = self.shop.log.read()
        again = sum(after.failed.values()) - sum(before.failed.values())
        self.tell(f"{group.count - again} confirmed by the worker; {again} failed again.")
        if again:
            self.tell("What failed again is back, with one attempt more:")
            self._show_groups()

    def _close_the_books(self) -> bool:
        differences = compare(self.shop.log.read(), self.client.list_messages())
        book = self.shop.log.read()
        statuses = Counter(item.status for item in self.client.list_messages())
        self.tell("\nThe ledger, counted by the shop itself and compared with the service:")
        self.tell(f"  published   {len(book.published):5}")
        self.tell(
            f"  handled     {len(book.handled):5}   of these after a retry: {statuses['resolved']}"
        )
        self.tell(f"  given up    {len(book.given_up):5}   unresolved: {statuses['unresolved']}")
        self.tell(f"  missing     {len(book.missing):5}")
        self.tell(f"  doubled     {len(book.doubled):5}")
        for difference in differences:
            self.tell(f"  ! {difference}")
        self.tell("Nothing is missing." if not differences else "The ledger does not add up.")
        return not differences

    def _show_groups(self) -> None:
        for group in self.client.list_groups():
            self.tell(f"  {group.count:4}  {group.title}")

    def _find_group(self, cause: Defect) -> ListedGroup:
        words = _WORDS_OF[cause]
        return next(group for group in self.client.list_groups() if group.title.startswith(words))

    def _is_everything_tried(self) -> bool:
        book = self.shop.log.read()
        return bool(book.published) and not book.missing

    def _is_everything_stored(self) -> bool:
        return not compare(self.shop.log.read(), self.client.list_messages())

    def _had_outcomes(self, before: Book, group: ListedGroup) -> bool:
        after = self.shop.log.read()
        outcomes = sum(after.failed.values()) + sum(after.handled.values())
        known = sum(before.failed.values()) + sum(before.handled.values())
        return outcomes - known >= group.count


ORDERS = 300
_START = 60.0
_POLL = 0.1

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
