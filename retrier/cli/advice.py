"""What a person can do next, as remarks beside what went wrong; `ID` stands for the id of one."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote

from retrier.api.shapes.service import Import, ReadAgain
from retrier.cli.printer import Printer, short_id
from retrier.domain.failed_imports import ImportKind, kind_of

_SEND = "send it where it belongs: `retrier imports send {id} --to QUEUE`"
_DELETE = "delete it: `retrier imports delete {id}`"
_ADVICE = {
    ImportKind.NAMELESS: (
        f"It does not say where it failed: {_SEND}; or say it, and it is a failed message: `retrier "
        f"imports retry {{id}} --destination QUEUE`; or {_DELETE}."
    ),
    ImportKind.CONFIRMATION: (
        f"A confirmation that confirms nothing: if its body is empty, nothing is lost with it, "
        f"{_DELETE}."
    ),
    ImportKind.CLOSED: f"It could not be stored as a failed message: {_SEND}; or {_DELETE}.",
}
_IN_DOUBT = (
    "In doubt: look whether it arrived. If it did, delete it: `retrier imports delete {id}`. If it "
    "did not: `retrier imports send {id} --to QUEUE --again`."
)


def advise_on_imports(printer: Printer, items: Sequence[Import]) -> None:
    """Remark what can be done with failed imports that are shown, once for each kind."""
    shown = short_id(items[0]["id"]) if len(items) == 1 else "ID"
    doubtful = [item for item in items if "send" in item]
    _note(printer, (item["reason"] for item in items if "send" not in item), shown)
    if doubtful:
        printer.note(_IN_DOUBT.format(id=shown))


def advise_on_kept(printer: Printer, came_to: ReadAgain) -> None:
    """Remark what can be done with what was read again and is a failed import still."""
    _note(printer, (each["reason"] for each in came_to["kept"]), "ID")


def _note(printer: Printer, reasons: Iterable[str], shown: str) -> None:
    kinds = {kind_of(reason) for reason in reasons}
    for kind, words in _ADVICE.items():
        if kind in kinds:
            printer.note(words.format(id=shown))


_NO_QUEUE = re.compile(r"queue (?P<queue>.+?) does not exist \(")


def advise_on_missing_queue(printer: Printer, reason: str | None, message_id: str = "ID") -> None:
    """Remark what can be done about retries that failed because their queue is not there."""
    for queue in _missing(reason):
        printer.note(
            f"Make the queue, or send it elsewhere: `retrier retry {short_id(message_id)} "
            f"--destination QUEUE`, or all that goes there: `retrier redirects set {quote(queue)} QUEUE`."
        )


def _missing(reason: str | None) -> Iterator[str]:
    found = _NO_QUEUE.match(reason or "")
    if found:
        yield found["queue"]


_SETTLED = ("resolved", "archived")


def note_settled(printer: Printer, statuses: Mapping[str, int]) -> None:
    """Remark how many of the listed messages need nothing any more, and how to list the others.

    `statuses` says how many are in each.
    """
    settled = sum(statuses.get(each, 0) for each in _SETTLED)
    if settled:
        printer.note(
            f"{settled:,} of these {'is' if settled == 1 else 'are'} resolved or archived; what is "
            "left: `retrier errors list --status unresolved --status retryIssued`"
        )
