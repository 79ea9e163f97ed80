"""The demo's ledger: the shop's own book beside what the service says, order by order."""

from collections.abc import Iterator, Sequence

from retrier.demo.desk import Listed
from retrier.demo.tally import Book


def compare(book: Book, listed: Sequence[Listed]) -> tuple[str, ...]:
    """Return every difference, in a sentence; nothing when both agree and nothing is missing."""
    return tuple(_differences(book, {item.message_id: item for item in listed}))


def _differences(book: Book, listed: dict[str, Listed]) -> Iterator[str]:
    for order in sorted(book.missing):
        yield f"{order} was published and never seen again"
    for order in sorted(book.doubled):
        yield f"{order} was handled {book.handled[order]} times"
    for order in sorted(set(book.failed) ^ set(listed)):
        yield f"{order} failed {book.failed.get(order, 0)} times, and the service knows otherwise"
    for order in sorted(set(book.failed) & set(listed)):
        yield from _compare_one(order, book, listed[order])


def _compare_one(order: str, book: Book, known: Listed) -> Iterator[str]:
    if known.attempts != book.failed[order]:
        yield f"{order} failed {book.failed[order]} times, the service counts {known.attempts}"
    wanted = "unresolved" if order in book.given_up else "resolved"
    if known.status != wanted:
        yield f"{order} should be {wanted}, and is {known.status}"
