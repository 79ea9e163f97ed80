"""What stands when a message fails again: a person's last word, or what was decided before.

What a person has declared dead, archived or resolved is theirs until they retry it or take it back.
Whatever runs by itself may store that it failed again, and nothing more.
"""

from dataclasses import dataclass
from enum import Enum

from retrier.domain.decision import Dead, Decision, Manual
from retrier.domain.failed_message import FailedMessageStatus, LastWord, Resolution
from retrier.domain.new_failure import Known


class Stands(Enum):
    """What a failure that makes its message unresolved leaves as it was.

    NOTHING   the policies decide about it.
    DECISION  what was decided before stays: disposition, words, rule and time.
    WORD      the message is open again, and a person decides: nothing sends it by itself.
    """

    NOTHING = "nothing"
    DECISION = "the decision"
    WORD = "a person's word"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a message stood when it failed again.

    `is_copy` means that the failure is a second copy of a retry whose failure is counted. `of` names
    the message under whose retry another one came: then the word is about that message.
    """

    status: FailedMessageStatus
    word: LastWord | None = None
    is_copy: bool = False
    of: str | None = None


def last_word(known: Known) -> LastWord | None:
    """Return what a person said of a message last; None if they retried it or took it back since.

    The status of what is archived or resolved by hand says it too: of rows of before revision 1021
    nothing else does.
    """
    match known.status:
        case FailedMessageStatus.ARCHIVED:
            return LastWord.ARCHIVED
        case FailedMessageStatus.RETRY_ISSUED:
            return None
        case FailedMessageStatus.RESOLVED if known.resolution is Resolution.BY_HAND:
            return LastWord.RESOLVED
        case _:
            return known.word


def what_stands(standing: Standing, decision: Decision) -> Stands:
    """Say what stands of a message about which this was decided before it failed again."""
    if standing.of is not None:
        return Stands.NOTHING if standing.word is None else Stands.WORD
    said = standing.word is not None or standing.is_copy
    if standing.status is not FailedMessageStatus.UNRESOLVED:
        return Stands.WORD if said else Stands.NOTHING
    return Stands.DECISION if said or _is_given_up(decision) else Stands.NOTHING


def _is_given_up(decision: Decision) -> bool:
    """Say whether nothing retries it by itself: it is dead, or a rule has left it to a person."""
    left = isinstance(decision, Manual) and decision.policy is not None
    return left or isinstance(decision, Dead)
