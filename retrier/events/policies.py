"""Events of the policies: their file changes, is wrong, and is right again."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesTaken(Event):
    """The file has changed, and its policies are in force."""

    name = "policies.taken"
    file: str
    set_hash: str
    rules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesWrong(Event):
    """The file has changed and is wrong: the set before it stays in force."""

    name = "policies.wrong"
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesRight(Event):
    """A file that was wrong is right, and its policies are in force."""

    name = "policies.right"
    file: str
    set_hash: str
