"""Acts on several failed imports, one after the other, and what they came to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from retrier.domain.failed_imports import Doubtful, ImportRefusal, NotTaken, NotTried, Sent
from retrier.errors import BrokerUnavailable
from retrier.imports import FailedImports, SendAnswer, WrongQueue
from retrier.web.wording import noun, number, plural

MOST_SHOWN = 20
"""Messages that are named of those that imports became."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of it: how many were done, what they are now, and why others were left."""

    title: str
    done: int
    became: Sequence[str] = ()
    left: Counter[str] = field(default_factory=Counter)
    message_ids: Sequence[str] = ()


def read_again(
    imports: FailedImports,
    ids: Sequence[str],
    who: str,
    *,
    error_queue: str | None,
    all_up_to: int | None,
) -> Came:
    """Read them again, or all of an error queue that were counted up to a number.

    Raises DatabaseUnavailable.
    """
    if all_up_to is not None:
        came = imports.read_all_again(error_queue, who, all_up_to)
    else:
        # Begun with the first one: an empty sum has no type of its own.
        first, *others = ids
        came = imports.read_again(first, who)
        for each in others:
            came = came.add(imports.read_again(each, who))
    done, left = came.became.total(), came.kept + Counter(map_words(came.refused))
    total = done + left.total()
    return Came(
        title=f"{number(done)} of {plural(total, 'failed import')} could be read",
        done=done,
        became=[
            f"{number(count)} {_BECAME[kind.value]}{'' if count == 1 else 's'}"
            for kind, count in came.became.items()
        ],
        left=left,
        message_ids=came.message_ids[:MOST_SHOWN],
    )


def map_words(refused: Counter[ImportRefusal]) -> dict[str, int]:
    """Return refusals as texts."""
    return {refusal.value: count for refusal, count in refused.items()}


_BECAME = {
    "failed_message": "failed message",
    "stored_before": "message that was stored already",
    "confirmation": "confirmation of a retry",
    "own_copy": "copy of the staging queue",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTerms:
    """Where to, and whether those are sent that may have been sent, or only confirm a retry."""

    to: str
    again: bool = False
    confirmation: bool = False


def send(imports: FailedImports, ids: Sequence[str], terms: SendTerms, who: str) -> Came:
    """Send them to a queue as they came, in this order. Raises DatabaseUnavailable.

    Each is stamped before it is sent. A broker that is away ends it: the rest is left as it is.
    """
    done, left = 0, Counter[str]()
    for place, each in enumerate(ids):
        try:
            sent = imports.send(
                each, terms.to, who, again=terms.again, confirmation=terms.confirmation
            )
        except BrokerUnavailable as error:
            left[f"the broker is away: {error}"] += len(ids) - place
            break
        why = _why_not(sent, terms.to)
        done += why is None
        left.update([] if why is None else [why])
    title = f"{number(done)} of {plural(len(ids), 'failed import')} {noun(done, 'is', 'are')} sent"
    return Came(title=f"{title} to {terms.to}", done=done, left=left)


def delete(imports: FailedImports, ids: Sequence[str], who: str) -> Came:
    """Delete them for good. Raises DatabaseUnavailable."""
    refused = [imports.delete(each, who) for each in ids]
    left = Counter(each.value for each in refused if each is not None)
    done = len(ids) - left.total()
    title = f"{number(done)} of {plural(len(ids), 'failed import')} deleted"
    return Came(title=title, done=done, left=left)


def _why_not(sent: SendAnswer, to: str) -> str | None:
    match sent:
        case Sent():
            return None
        case WrongQueue(reason):
            return f"nothing can be sent there: {reason}"
        case ImportRefusal():
            return sent.value
        case NotTaken(reason) | NotTried(reason):
            return f"it was not sent: {reason}"
        case Doubtful(reason):
            return (
                f"nobody knows whether {to} has it: {reason}. Look there: if it arrived, delete the "
                "import, and if it did not, send it once more"
            )
        case _ as never:
            assert_never(never)
