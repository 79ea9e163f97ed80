"""The scenario of `retrier demo --once`: failures, groups, repairs, retries, the ledger."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from retrier.demo.client import Client, Group
from retrier.demo.orders import REPAIRS, Cause
from retrier.demo.shop import Shop
from retrier.demo.shop_log import Book, compare
from retrier.demo.workspace import Workspace

Tell = Callable[[str], None]

_TIMEOUT = 20.0
"""Seconds each step of the scenario may take."""

_WORDS_OF = {
    Cause.GIFT_BUG: "KeyError",
    Cause.PAYMENTS_DOWN: "ConnectionRefusedError",
    Cause.BAD_INPUT: "BadOrder",
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
        self._repair_and_retry(Cause.GIFT_BUG)
        self._repair_and_retry(Cause.PAYMENTS_DOWN)
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

    def _repair_and_retry(self, cause: Cause) -> None:
        before = self.shop.log.read()
        self.workspace.repair(cause)
        self.tell(f"\nRepaired: {REPAIRS[cause]}.")
        group = self._find_group(cause)
        self.tell(f"Retrying the group “{group.title}”: {group.count} messages.")
        operation = self.client.retry_group(group.group_id)
        self.client.wait_for(
            "the retry is done", lambda: self.client.is_complete(operation), _TIMEOUT
        )
        self.client.wait_for(
            "every retry had its outcome", lambda: self._had_outcomes(before, group), _TIMEOUT
        )
        self.client.wait_for("the outcomes are stored", self._is_everything_stored, _TIMEOUT)
        self._show_outcome(before, group)

    def _show_outcome(self, before: Book, group: Group) -> None:
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

    def _find_group(self, cause: Cause) -> Group:
        words = _WORDS_OF[cause]
        return next(group for group in self.client.list_groups() if group.title.startswith(words))

    def _is_everything_tried(self) -> bool:
        book = self.shop.log.read()
        return bool(book.published) and not book.missing

    def _is_everything_stored(self) -> bool:
        return not compare(self.shop.log.read(), self.client.list_messages())

    def _had_outcomes(self, before: Book, group: Group) -> bool:
        after = self.shop.log.read()
        outcomes = sum(after.failed.values()) + sum(after.handled.values())
        known = sum(before.failed.values()) + sum(before.handled.values())
        return outcomes - known >= group.count
