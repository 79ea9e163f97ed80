"""Failed imports: why one failed, what a person may do with it, and what it turns out to be today."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from retrier.domain.failed_message import Confirmation, FailedImport, Failure, Judged, OwnCopy
from retrier.domain.folding import candidate_ids
from retrier.domain.headers import UNIQUE_MESSAGE_ID
from retrier.domain.recording import Receipt
from retrier.domain.values import dataclass

_CONFIRMS = "it confirms a retry"
NO_ID = f"{_CONFIRMS}, but {UNIQUE_MESSAGE_ID} is no unique id"
UNKNOWN_MESSAGE = f"{_CONFIRMS} of a message that is not known here"
IDLE = f"{_CONFIRMS}, but none of that message is under way; it has a body, so it is kept"

UNKNOWN_COPY = "it has the stamps of a copy of ours and no body, but its staging id is not known"
UNREADABLE = "its properties cannot be read"
REFUSED = "the database refuses it"
UNFORESEEN = "unforeseen"

NO_CONTENT = frozenset({b"", b"{}"})
"""What a client writes as the body of a message that has none (Kombu: an empty JSON object)."""


Told = Mapping[str, object]
"""What a message would be, by the name of each fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedMessage:
    """A message as it lies on an error queue; `is_written` if somebody wrote its properties down."""

    queue: str
    raw: bytes
    body: bytes
    is_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """By what messages are read for a look, beside the settings in force.

    `dialect` reads each of them, whatever would recognise it. `section` are formats as the settings
    would have them, as a text or as what it says; None: those in force.
    """

    dialect: str | None = None
    section: object = None


class ImportKind(StrEnum):
    """What a failed import is, as far as its reason says.

    NAMELESS      it does not say where it failed.
    CONFIRMATION  it confirms a retry of which nothing is known.
    CLOSED        no setting makes more of it.
    """

    NAMELESS = "nameless"
    CONFIRMATION = "confirmation"
    CLOSED = "closed"


def kind_of(reason: str) -> ImportKind:
    """Return the kind of a failed import that is kept for this reason."""
    if reason.startswith((NO_ID, UNKNOWN_MESSAGE)):
        return ImportKind.CONFIRMATION
    closed = reason.startswith((UNREADABLE, REFUSED, UNFORESEEN, UNKNOWN_COPY, IDLE))
    return ImportKind.CLOSED if closed else ImportKind.NAMELESS


ON_ITS_WAY = timedelta(seconds=60)
"""So long after its stamp an import may still be handed to the broker.

Whoever sends gives up long before (transport.sender), so a stamp that is older is of a process that
died, or that was told nothing: nobody sends it any more, and a person may decide.
"""


class ImportState(StrEnum):
    """Where a failed import stands.

    KEPT      it waits for a person.
    IN_DOUBT  it was stamped to be sent to a queue and the broker's answer is not recorded: it may
              have arrived.
    """

    KEPT = "kept"
    IN_DOUBT = "in_doubt"


class ImportRefusal(StrEnum):
    """Why an act on a failed import is refused."""

    UNKNOWN = "no failed import has this id"
    ON_ITS_WAY = (
        "it is being sent to a queue at this moment; if the process that did so has died, it can be "
        "sent again, or deleted, a minute after it began"
    )
    IN_DOUBT = (
        "it may have been sent to a queue already; if it did not arrive there, send it with `again`, "
        "and if it did, delete it"
    )
    ONLY_CONFIRMS = (
        "it has no body and only confirms a retry that nobody waits for, so no consumer can handle "
        "it: delete it, or send it with `confirmation` all the same"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A send of a failed import whose outcome is not recorded: the stamp."""

    send_id: str
    to: str
    since: datetime
    requested_by: str


@dataclass(frozen=True, slots=True)
class Sent:
    """The broker has taken the import over."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The broker answered, and did not take it: it is nowhere but here.

    `no_queue`: because there is no such queue.
    """

    reason: str
    no_queue: bool = False


@dataclass(frozen=True, slots=True)
class NotTried:
    """Nothing of it was handed to the broker."""

    reason: str


@dataclass(frozen=True, slots=True)
class Doubtful:
    """It was handed to the broker, whose answer did not come: it may have arrived."""

    reason: str


SendOutcome = Sent | NotTaken | NotTried | Doubtful


def why_not_read_again(send: Send | None, now: datetime) -> ImportRefusal | None:
    """Return why an import may not be read again; None if it may.

    One that may have arrived on a queue would be a failed message as well, and be retried: it
    would be handled twice.
    """
    return why_not_send(send, now, again=False)


def why_not_send(send: Send | None, now: datetime, *, again: bool) -> ImportRefusal | None:
    """Return why an import may not be sent; None if it may. `again`: although it is in doubt."""
    if send is None:
        return None
    if is_on_its_way(send, now):
        return ImportRefusal.ON_ITS_WAY
    return None if again else ImportRefusal.IN_DOUBT


def why_not_delete(send: Send | None, now: datetime) -> ImportRefusal | None:
    """Return why an import may not be deleted; None if it may.

    One in doubt may: a person has looked whether it arrived.
    """
    return why_not_send(send, now, again=True)


def is_on_its_way(send: Send, now: datetime) -> bool:
    """Say whether somebody may still be about to hand it to the broker."""
    return now - send.since < ON_ITS_WAY


class Became(StrEnum):
    """What a failed import turned out to be when it was read again."""

    FAILED_MESSAGE = "failed_message"
    STORED_BEFORE = "stored_before"
    CONFIRMATION = "confirmation"
    OWN_COPY = "own_copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAgain:
    """What failed imports became, by kind; why others are kept, and why others were not read.

    `message_ids` are those of the failed messages.
    """

    became: Counter[Became] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    refused: Counter[ImportRefusal] = field(default_factory=Counter)
    message_ids: tuple[str, ...] = ()

    @classmethod
    def refusing(cls, refusal: ImportRefusal) -> "ReadAgain":
        """Return that of one import which may not be read."""
        return cls(refused=Counter([refusal]))

    def without(self, refusal: ImportRefusal) -> "ReadAgain":
        """Return the same, without those that were refused for this reason."""
        others = {each: number for each, number in self.refused.items() if each is not refusal}
        return replace(self, refused=Counter(others))

    def add(self, other: "ReadAgain") -> "ReadAgain":
        """Return both together."""
        return ReadAgain(
            became=self.became + other.became,
            kept=self.kept + other.kept,
            refused=self.refused + other.refused,
            message_ids=self.message_ids + other.message_ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reimport:
    """What the imports turned out to be, by import, and what that changes.

    `equal` are failures that are stored already, with the message of each; `twins` equal another
    of these imports, which is named.
    """

    items: Mapping[str, Judged | OwnCopy]
    equal: Mapping[str, str]
    twins: Mapping[str, str]
    receipt: Receipt

    def message_of(self, import_id: str) -> str | None:
        """Return the id of the failed message that an import became; None for anything else."""
        item = self.items[self.twins.get(import_id, import_id)]
        own = {id(attempt.failure): attempt.unique_message_id for attempt in self.receipt.attempts}
        failure = item.if_idle if isinstance(item, Confirmation) else item
        return self.equal.get(import_id) or own.get(id(failure))

    def why_kept(self, import_id: str) -> str | None:
        """Return why an import stays one; None if it is something else now."""
        item = self.items[import_id]
        kept = {id(each): each.reason for each in self.receipt.imports}
        match item:
            case FailedImport(reason=reason):
                return reason
            case Confirmation(if_unknown=unknown, if_idle=idle):
                return kept.get(id(unknown)) or kept.get(id(idle))
            case _:
                return None

    def became(self, import_id: str) -> Became:
        """Return what an import is now that is none any more."""
        match self.items[import_id]:
            case OwnCopy():
                return Became.OWN_COPY
            case Confirmation() if self.message_of(import_id) is None:
                return Became.CONFIRMATION
            case _ if import_id in self.equal or import_id in self.twins:
                return Became.STORED_BEFORE
            case _:
                return Became.FAILED_MESSAGE


def find_twins(failures: Mapping[str, Failure]) -> Mapping[str, str]:
    """Return those failures that equal an earlier one of these imports, with that import.

    The same as above: what one chunk reads must not depend on what is in it.
    """
    first: dict[str, str] = {}
    named = {key: each for key, each in failures.items() if candidate_ids(each)}
    firsts = {key: first.setdefault(each.fingerprint, key) for key, each in named.items()}
    return {key: other for key, other in firsts.items() if other != key}


@dataclass(frozen=True, slots=True)
class WrongQueue:
    """Nothing may be sent to that queue."""

    reason: str


@dataclass(frozen=True, slots=True)
class WrongDialect:
    """No format has that name."""

    reason: str
