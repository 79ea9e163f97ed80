"""What was asked for, and what each operation may and must do for it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from retrier.domain.streams import StreamRule
from tests.properties.model.account import UNRESOLVED, Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One operation: the messages it was about, and the moment it was asked for.

    One that is `limited` takes only the first of them. One that has `named` them skips those that
    streams hold.
    """

    wanted: frozenset[str]
    at: int
    limited: bool = False
    named: bool = False


@dataclass(slots=True)
class Requests:
    """All operations by id."""

    made: dict[str, Request] = field(default_factory=dict)
    claimed: dict[str, set[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    """Operations that somebody has cancelled, and was told so."""

    def add(
        self,
        operation_id: str,
        wanted: Iterable[str],
        at: int,
        *,
        limited: bool = False,
        named: bool = False,
    ) -> None:
        """Note an operation."""
        self.made[operation_id] = Request(
            wanted=frozenset(wanted), at=at, limited=limited, named=named
        )

    def names(self, operation_id: str) -> bool:
        """Say whether a person named the messages of an operation: these no breaker holds."""
        request = self.made.get(operation_id)
        return request is not None and request.named

    def may_claim(self, operation_id: str, key: str, since: int) -> bool:
        """Say whether the operation asked for this message as it is now, and only once."""
        request = self.made.get(operation_id)
        if request is None or key not in request.wanted or since > request.at:
            return False
        had = self.claimed.setdefault(operation_id, set())
        first = key not in had
        had.add(key)
        return first

    def close(self, completed: Iterable[str], account: Account) -> Iterator[str]:
        """Yield what an operation left behind that it should have taken when it completed."""
        for operation_id in set(completed) - self.closed:
            self.closed.add(operation_id)
            request = self.made.get(operation_id)
            for key in sorted(request.wanted if request and not request.limited else ()):
                message = account.messages.get(key)
                if message is None or request is None or message.claim is not None:
                    continue
                if request.named and message.rule == StreamRule.STRICT:
                    continue
                if message.status == UNRESOLVED and message.since <= request.at:
                    yield f"operation {operation_id} completed without {key}"
