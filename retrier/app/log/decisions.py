"""Lines about what policies decide: of each rule the first at once, then once a minute."""

from collections import Counter
from collections.abc import Iterable

from retrier.app.log.lines import Line, make_line
from retrier.app.log.pace import Paced
from retrier.domain.decision import Decided
from retrier.domain.failed_message import Disposition
from retrier.domain.receipt import Recorded
from retrier.events.event import Event
from retrier.events.ingestion import BatchStored, StoredAlone
from retrier.events.processor import BatchStaged, WindowRecorded

_TOLD = frozenset({Disposition.SCHEDULED, Disposition.DEAD})

Key = tuple[Disposition, str]


class Decisions(Paced[Key, Counter[str]]):
    """Logs what each rule has decided, and how many messages for which reason."""

    def add(self, event: Event) -> None:
        """Count what is decided in the transaction of this event, if it has decided anything."""
        told = [each for each in _decided_in(event) if each.disposition in _TOLD]
        self._count(
            ((each.disposition, each.policy or "none"), Counter(each.reasons)) for each in told
        )

    def _describe(self, key: Key, counted: Counter[str]) -> Line:
        disposition, policy = key
        reasons = ", ".join(f"{reason} {count}" for reason, count in counted.most_common())
        count = counted.total()
        if disposition is Disposition.DEAD:
            return make_line("policies.dead", policy=policy, count=count, reasons=reasons)
        return make_line("policies.scheduled", policy=policy, count=count, reasons=reasons)


def _decided_in(event: Event) -> Iterable[Decided]:
    match event:
        case BatchStored(recorded=Recorded(decided=decided)):
            return decided
        case StoredAlone(recorded=Recorded(decided=decided)):
            return decided
        case WindowRecorded(decided=decided) | BatchStaged(decided=decided):
            return decided
        case _:
            return ()
