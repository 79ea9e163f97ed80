"""Judging: history and failure in, a decision with its reason out."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from retrier.domain.decision import Judgement
from retrier.policy.facts import Facts

Dice = Callable[[], float]
"""Returns a random number from 0 up to, not including, 1."""


class Policies(Protocol):
    """A set of policies, as who stores failures and reverts uses it.

    `configured` says whether somebody asked for it: without, everything waits for a person, by no
    rule and at any time. `notices` is the queue that is told of each message that becomes dead.
    """

    @property
    def configured(self) -> bool:
        """Whether the settings have policies."""
        ...

    @property
    def notices(self) -> str | None:
        """The queue for notices of dead messages; None if there are none."""
        ...

    def judge(self, facts: Facts, *, failures: int, now: datetime, dice: Dice) -> Judgement:
        """Decide about a message that has failed `failures` times, this time included.

        They are counted since the first, or since the last retry that a person asked for.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Who is asked about failures: the policies in force, and the dice for their jitter.

    A transaction takes the policies once: they may be replaced at any time.
    """

    in_force: Callable[[], Policies]
    dice: Dice
