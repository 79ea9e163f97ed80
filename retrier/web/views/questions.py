"""What a person is asked once before something is done that cannot be taken back, or to many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from retrier.domain.archive_operation import Act
from retrier.store.queries.archive_previews import ArchivePreview
from retrier.web.wording import plural

_NAMES = {Act.ARCHIVE: "Archive", Act.UNARCHIVE: "Unarchive", Act.RESOLVE: "Resolve"}
_WHAT = {
    Act.ARCHIVE: "They are set aside: no retry takes them. It can be undone "
    "until they are deleted, `retention.archived` after this: 10 days by default.",
    Act.UNARCHIVE: "They are unresolved again.",
    Act.RESOLVE: "They count as dealt with, and are never retried. It cannot be undone.",
}
LATER = "What fails from now on is left as it is."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A form that asks before it acts; `why` is "asked", "needed", or empty.

    `left_out` counts by reason what would be left as it is. `button` is empty if nothing would be
    done. `reasons` are those that a message may be given.
    """

    title: str
    what: str
    post_to: str
    back: str
    button: str
    text: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    why: str = "asked"
    reasons: Sequence[str] = ()


def ask_about(act: Act, what: str, found: ArchivePreview, base: Question) -> Question:
    """Return the question before an act on many; `base` has its addresses and fields."""
    count, name = plural(found.total, "message"), _NAMES[act]
    return Question(
        title=f"{name} {count}?" if found.total else "Nothing would be changed",
        what=what,
        post_to=base.post_to,
        back=base.back,
        button=f"{name} {count}" if found.total else "",
        text=_WHAT[act] if found.total else "",
        left_out=found.skipped_because,
        notes=base.notes,
        fields=base.fields,
    )
