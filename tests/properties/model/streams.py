"""Streams in the account: a message's place, and what an earlier one holds, in the plainest words."""

from collections.abc import Mapping
from typing import Protocol

from retrier.domain.failed_message import Failure
from retrier.domain.streams import StreamRule

Place = tuple[str, str]
"""The queue and the id of a stream."""
OPEN = ("unresolved", "retry_issued")
RULES = {"ValueError": StreamRule.STRICT, "KeyError": StreamRule.RELEASE}
"""What the policies of the model say, by the type of the newest failure."""


class InStream(Protocol):
    """What decides about a message of a stream."""

    status: str
    stream: Place | None
    rule: str | None
    released: bool


def place_of(failure: Failure) -> Place | None:
    """Return the stream that a failure names."""
    stream_id = failure.details.stream_id
    return None if stream_id is None else (failure.details.queue, stream_id)


def rule_of(failure: Failure) -> str | None:
    """Return what the policies say of it, if it is in a stream."""
    return RULES[failure.details.exception_type or ""]


def stay(fresh: InStream, before: InStream, rule: str | None) -> None:
    """Let a message that failed again stay in its stream, unless the failure names another one."""
    named = fresh.stream
    if named is None or (before.stream is not None and before.stream[1] == named[1]):
        fresh.stream = before.stream
    fresh.rule = rule if fresh.stream is not None else None


def is_held(messages: Mapping[str, InStream], key: str) -> bool:
    """Say whether an earlier message of its stream holds this one; they are in their order."""
    mine = messages[key]
    if mine.rule != StreamRule.STRICT or mine.released or mine.status != "unresolved":
        return False
    for other, each in messages.items():
        if other == key:
            return False
        if each.stream == mine.stream and each.status in OPEN:
            return True
    return False


def held(messages: Mapping[str, InStream], stream: Place | None = None) -> list[str]:
    """Return what is held, in all streams or in one."""
    those = (key for key, each in messages.items() if stream in (None, each.stream))
    return [key for key in those if is_held(messages, key)]
