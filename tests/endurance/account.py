"""The account of an endurance run: what is lost, and to which kill each duplicate belongs."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Kill:
    """One SIGKILL: when it came, what was in doubt then, and what of that came twice."""

    number: int
    after: float
    in_doubt: frozenset[str]
    stored: int
    doubled: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What was found when all work was done. `unexplained` was in doubt at no kill.

    `again` counts the retries that were sent because a pending retry was asked for again.
    """

    messages: int
    retries: int
    kills: Sequence[Kill]
    window: int
    lost: Collection[str]
    unexplained: Collection[str]
    wrong_attempts: Collection[str]
    verified: int
    again: int
    seconds: float

    @property
    def duplicates(self) -> int:
        """How many copies came beyond the first, in all."""
        return sum(len(kill.doubled) for kill in self.kills) + len(self.unexplained)

    @property
    def violations(self) -> list[str]:
        """Say which promises are broken; nothing if none is."""
        widest = max((len(kill.in_doubt) for kill in self.kills), default=0)
        found = {
            f"{len(self.lost)} messages or retries are lost": bool(self.lost),
            f"{len(self.unexplained)} copies were in doubt at no kill": bool(self.unexplained),
            f"{widest} messages were in doubt at one kill": widest > self.window,
            f"{len(self.wrong_attempts)} messages have attempts too many or too few": bool(
                self.wrong_attempts
            ),
            f"retrier verify ended with {self.verified}": self.verified != 0,
        }
        return [words for words, holds in found.items() if holds]


def attribute(copies: Mapping[str, int], kills: Sequence[Kill]) -> list[str]:
    """Give each copy beyond the first to a kill at which its retry was in doubt, the first first.

    One kill explains one copy of each retry that was in doubt then. Returns the retry ids of the
    copies that no kill explains.
    """
    unexplained = []
    for retry_id, number in copies.items():
        explaining = [kill for kill in kills if retry_id in kill.in_doubt]
        for kill in explaining[: number - 1]:
            kill.doubled.add(retry_id)
        unexplained += [retry_id] * (number - 1 - len(explaining))
    return unexplained


def find_lost(
    failed: Collection[str],
    stored: Collection[str],
    given_out: Collection[str],
    seen: Mapping[str, str],
) -> set[str]:
    """Return the messages that are not stored or never came back, and retries that never came.

    `given_out` are the retries that must have come; `seen` the message of each retry id.
    """
    messages = set(failed)
    return (messages - set(stored)) | (messages - set(seen.values())) | (set(given_out) - set(seen))


def find_wrong_attempts(rows: Collection[tuple[str, int]], failed_again: Counter[str]) -> set[str]:
    """Return the messages whose attempts are not their first failure and each later one."""
    return {row[0] for row in rows if row[1] != 1 + failed_again[row[0]]}
