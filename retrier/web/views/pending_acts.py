"""What is asked before pending retries are retried again or resolved: the doubt, and how many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.queries.archive_previews import ArchivePreview
from retrier.web.views.confirmations import Confirmation, Line
from retrier.web.views.pending import PATH
from retrier.web.wording import noun, plural

MOST_DESTINATIONS = 10

_TWICE = (
    "The consumer may have handled the first retry already, and only told nobody. If it does not "
    "drop what it has handled (by the header Retrier.RetryId, or by its own means), these messages "
    "are handled twice."
)
_LOST = (
    "Retrier does not know whether they were handled: you say so. If one was not, it is not sent "
    "again by itself. A failure that comes later makes its message unresolved again."
)
_LATER = "What is sent after this preview is not part of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Those:
    """Pending retries: named ones, or those of a queue that were sent by a time.

    The time is counted from that of the preview: what has become old enough since is left out.
    """

    ids: tuple[str, ...] | None = None
    queue: str | None = None
    older: str = ""
    at: datetime | None = None
    sent_before: datetime | None = None

    @property
    def words(self) -> str:
        """What they are; the same for the same form, because its key is bound to it."""
        if self.ids is not None:
            count = len(self.ids)
            return f"{count} pending {noun(count, 'retry', 'retries')}"
        of_queue = "" if self.queue is None else f" of queue {self.queue}"
        older = f" sent more than one {self.older} ago" if self.older else ""
        return f"the pending retries{of_queue}{older}"

    @property
    def selection(self) -> Selection:
        """Return them as a selection."""
        if self.ids is not None:
            return Selection(ids=self.ids)
        return Selection(
            queue=self.queue,
            statuses=frozenset({FailedMessageStatus.RETRY_ISSUED}),
            pending=True,
            sent_before=self.sent_before,
        )

    @property
    def fields(self) -> Sequence[tuple[str, str]]:
        """Return the hidden fields that name them."""
        if self.ids is not None:
            return [("id", each) for each in self.ids]
        given = {
            "all": "yes",
            "queue": self.queue or "",
            "older": self.older,
        }
        return [(name, value) for name, value in given.items() if value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What an act would do: how many it would change, and to which queues retries would go.

    `plan` holds the act to that.
    """

    preview: ArchivePreview
    plan: str
    destinations: Sequence[tuple[str, int]] = field(default_factory=tuple)


def ask_before(act: Act, those: Those, counted: Counted, back: str) -> Confirmation:
    """Return the question before an act: RELEASE is to retry again."""
    plan = [] if those.ids is not None else [("plan", counted.plan)]
    total = counted.preview.total
    again = act is Act.RELEASE
    what = plural(total, "message")
    shown = sum(count for _, count in counted.destinations)
    return Confirmation(
        title=_title(act, total),
        lead=f"This is about {those.words}.",
        act=f"Send {what} again" if again else f"{what} {_were(total)} handled",
        post_to=f"{PATH}/{'retry' if again else 'resolve'}",
        back=back,
        notes=_notes(act, those),
        destinations=[Line(name=name, count=count) for name, count in counted.destinations],
        others=max(0, total - shown) if again else 0,
        skipped=_in_words(counted.preview.skipped_because),
        fields=[*those.fields, *plan],
        asks_why=True,
        is_empty=total == 0,
    )


def _title(act: Act, total: int) -> str:
    if total == 0:
        return "Nothing of it is pending"
    what = plural(total, "message")
    if act is Act.RELEASE:
        return f"Retry {what} once more?"
    return f"Resolve {what} without a confirmation?"


def _were(total: int) -> str:
    return "was" if total == 1 else "were"


def _notes(act: Act, those: Those) -> Sequence[str]:
    doubt = _TWICE if act is Act.RELEASE else _LOST
    return [doubt] if those.ids is not None else [doubt, _LATER]


def _in_words(because: Mapping[str, int]) -> Mapping[str, int]:
    """Leave out the advice for the command line behind a reason."""
    return {reason.split(";")[0]: count for reason, count in because.items()}
