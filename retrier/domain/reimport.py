"""Failed imports read again: what each turns out to be today, and how that is told."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from retrier.domain.failed_imports import ImportRefusal
from retrier.domain.failed_message import Confirmation, FailedImport, Failure, Judged, OwnCopy
from retrier.domain.folding import candidate_ids
from retrier.domain.receipt import Receipt


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
