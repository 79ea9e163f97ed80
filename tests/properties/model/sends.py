"""What the broker took: each retry once, and once more for each time it was in doubt."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from retrier.domain import headers
from retrier.domain.dialects.retrier import RetrierDialect
from retrier.domain.failed_message import Received, Stamped
from retrier.domain.wire import Outgoing, Properties, PropertyCodec
from tests.properties.model.account import Account

STAGING = "retrier.staging"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A retry that arrived at a queue."""

    key: str
    retry_id: str
    raw: bytes
    body: bytes
    queue: str


@dataclass(slots=True)
class Sends:
    """Everything that was published, looked at once and in order."""

    codec: PropertyCodec
    window: int
    accepted: Counter[str] = field(default_factory=Counter)
    doubts: Counter[str] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)
    risks: int = 0
    arrived: list[Sent] = field(default_factory=list)
    targets: dict[str, set[str]] = field(default_factory=dict)
    staging_ids: set[str] = field(default_factory=set)
    _looked: int = 0

    def look(self, published: list[Outgoing], account: Account) -> Iterator[str]:
        """Yield what is wrong with what was published since the last look."""
        fresh, self._looked = published[self._looked :], len(published)
        for message in fresh:
            properties = self.codec.read(message.raw)
            retry_id = properties.text(headers.RETRY_ID)
            key = _key(properties)
            if message.queue == STAGING:
                # Of a probe, too: it is no copy of anything, and has an id that is ours.
                self.staging_ids.add(properties.text(headers.STAGING_ID) or "")
            if retry_id is None or key is None:
                continue
            if retry_id in account.stale:
                yield f"{key} went to {message.queue} by a claim that never held"
            if message.queue == STAGING:
                target = properties.text(headers.TARGET_ADDRESS) or ""
                self.targets.setdefault(retry_id, set()).add(target)
                continue
            yield from self._arrive(message, properties, retry_id, account)

    def tell_copies(self, received: Iterable[Received]) -> list[Received]:
        """Tell the copies that went to the staging queue from what merely looks like one."""
        return [
            (each.if_ours if each.staging_id in self.staging_ids else each.if_unknown)
            if isinstance(each, Stamped)
            else each
            for each in received
        ]

    def doubt(self, retry_ids: Iterable[str]) -> None:
        """Note a crash or a lost connection: these retries may go out once more."""
        self.risks += 1
        self.doubts.update(set(retry_ids))

    def was_not_taken(self, retry_id: str) -> bool:
        """Say whether a retry may be taken back: it did not arrive, or nobody could know."""
        return retry_id in self.refused and (
            not self.accepted[retry_id] or self.doubts[retry_id] > 0
        )

    def too_many(self) -> Iterator[str]:
        """Yield what is there more often than the times it was in doubt allow."""
        for retry_id, number in self.accepted.items():
            if number > 1 + self.doubts[retry_id]:
                yield f"retry {retry_id} arrived {number} times, in doubt {self.doubts[retry_id]}"
        doubled = sum(number - 1 for number in self.accepted.values())
        if doubled > self.window * self.risks:
            yield f"{doubled} doubled by {self.risks} crashes and losses"

    def _arrive(
        self, message: Outgoing, properties: Properties, retry_id: str, account: Account
    ) -> Iterator[str]:
        key = _key(properties) or ""
        self.accepted[retry_id] += 1
        self.arrived.append(
            Sent(
                key=key, retry_id=retry_id, raw=message.raw, body=message.body, queue=message.queue
            )
        )
        if message.queue not in self.targets.get(retry_id, ()):
            yield f"{key} went to {message.queue}, was staged for {self.targets.get(retry_id)}"
        edited = account.edits.get(retry_id)
        if message.body != account.body_of(key, retry_id):
            yield f"{key} was sent with another body"
        if (properties.text(headers.EDIT_OF) is None) != (edited is None):
            yield f"{key} was sent as what it is not, an edited version or the message itself"
        left = [name for name in properties.headers if _must_not_be_sent(name)]
        if left or properties.text("Shop.Number") is None:
            yield f"{key} was sent with {left} or without its own headers"


def _key(properties: Properties) -> str | None:
    """Return which message it is, or of which message it is an edited version."""
    return properties.text(headers.UNIQUE_MESSAGE_ID) or properties.text(headers.EDIT_OF)


def _must_not_be_sent(name: str) -> bool:
    stripped = RetrierDialect().strips(name) and name != headers.COMPLETED_STEPS
    return name in headers.STAGING_ONLY or stripped
