"""What does not go together in the section `policies`; reads values that are not checked yet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from retrier.policy import globs
from retrier.policy.delays import COOLDOWN, PRESETS
from retrier.policy.pattern_time import LONGEST_OF_ALL, LONGEST_SEARCH, longest_search
from retrier.policy.policy_set import UNMATCHED

Clash = tuple[tuple[int | str, ...], str]
Tree = Mapping[Any, Any]

_ROOT = "policies"
_NEEDED = {
    "exponential": ("first",),
    "linear": ("first", "step"),
    "fixed": ("first",),
    "list": ("delays",),
}
_ALLOWED = {
    "exponential": ("first", "factor", "cap"),
    "linear": ("first", "step", "cap"),
    "fixed": ("first",),
    "list": ("delays",),
}
_CONDITIONS = ("queue", "message_type", "type", "exception", "failure_reason", "message")
_OF_A_SET = ("queue", "message_type", "type")
"""The conditions that limit a set; `type` is another name of `message_type`."""

_SLOWEST_NAMED = 3


def find_policy_clashes(tree: Tree, own_queues: frozenset[str]) -> Iterator[Clash]:
    """Find them, with the place of each in the tree; own queues are those that Retrier empties."""
    match tree:
        case {"policies": dict(policies)}:
            yield from _find_notices(policies, own_queues)
            reasons = _list(policies, "classify")
            for index, each in enumerate(reasons):
                yield from _find_in_reason(each, (_ROOT, "classify", index))
            yield from _find_long_searches(reasons)
            yield from _find_in_rules(_list(policies, "rules"), own_queues)
        case _:
            return


def _list(tree: Tree, key: str) -> list[Tree]:
    """Return a list of mappings; what is none is an empty one: its shape is a problem of its own."""
    match tree.get(key):
        case [*entries]:
            return [each if isinstance(each, dict) else {} for each in entries]
        case _:
            return []


def _find_notices(policies: Tree, own_queues: frozenset[str]) -> Iterator[Clash]:
    notices = policies.get("notices")
    if isinstance(notices, str) and notices in own_queues:
        # Each notice would be ingested as a failure, and might become dead in turn: for ever.
        yield (_ROOT, "notices"), f"{notices} is a queue that Retrier itself empties"


def _find_in_reason(entry: Tree, place: tuple[int | str, ...]) -> Iterator[Clash]:
    if not entry:
        return
    conditions = [each for each in _CONDITIONS if each in entry]
    if "set" in entry:
        given = [each for each in ("reason", *conditions) if each in entry]
        if others := [each for each in given if each not in _OF_A_SET]:
            yield (
                (*place, "set"),
                f"goes with queue and message_type only, not with {', '.join(others)}",
            )
        return
    if "reason" not in entry:
        yield (*place, "reason"), "must be given"
    if not conditions:
        yield (
            place,
            f"must have at least one of {', '.join(each for each in _CONDITIONS if each != 'type')}",
        )


def _find_long_searches(reasons: Sequence[Tree]) -> Iterator[Clash]:
    """Find out whether all regular expressions together may search for too long.

    A message that none of them fits is searched by each, while ingestion and requests wait.
    """
    texts = ((index, each.get("message")) for index, each in enumerate(reasons))
    times = [(_estimate(text), index) for index, text in texts if isinstance(text, str)]
    total = sum(seconds for seconds, _ in times)
    if total > LONGEST_OF_ALL:
        slowest = sorted(times, key=lambda each: (-each[0], each[1]))[:_SLOWEST_NAMED]
        named = ", ".join(f"[{index}] {seconds * 1000:.0f} ms" for seconds, index in slowest)
        words = (
            f"its regular expressions may search for {total * 1000:.0f} ms together in a hostile "
            f"text, and {LONGEST_OF_ALL * 1000:.0f} ms are the most; the slowest: {named}"
        )
        yield (_ROOT, "classify"), words


def _estimate(pattern: str) -> float:
    """Return how long a pattern may search; 0 for one that is a problem of its own."""
    try:
        seconds = longest_search(pattern)
    except (re.error, OverflowError, RecursionError):
        return 0
    return seconds if seconds <= LONGEST_SEARCH else 0


def _find_in_rules(rules: list[Tree], own_queues: frozenset[str]) -> Iterator[Clash]:
    names = [each.get("name") for each in rules]
    for index, rule in enumerate(rules):
        place, name = (_ROOT, "rules", index), names[index]
        if name is not None and name in names[:index]:
            yield (*place, "name"), f"{name} is the name of an earlier rule"
        if name == UNMATCHED:
            yield (*place, "name"), f"{name} stands for what no rule matches"
        if rule:
            yield from _find_missing(rule, place)
            yield from _find_in_backoff(rule, (*place, "backoff"))
            yield from _find_own_queue(rule, place, own_queues)


def _find_missing(rule: Tree, place: tuple[int | str, ...]) -> Iterator[Clash]:
    name = rule.get("preset")
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if name is not None and preset is None:
        return  # which is a problem of its own
    attempts = rule.get("attempts")
    if name == COOLDOWN:
        if "backoff" in rule:
            yield (*place, "backoff"), "does not go with the preset cooldown"
    elif "cooldown" in rule:
        yield (*place, "cooldown"), "is for the preset cooldown"
    elif preset is None and "backoff" not in rule and attempts not in (None, 0, 1):
        yield (*place, "backoff"), "must be given, unless a preset gives it"


def _find_in_backoff(rule: Tree, place: tuple[int | str, ...]) -> Iterator[Clash]:
    backoff = rule.get("backoff")
    kind = backoff.get("kind") if isinstance(backoff, dict) else None
    if not isinstance(backoff, dict) or not isinstance(kind, str) or kind not in _NEEDED:
        return
    for key in _NEEDED[kind]:
        if key not in backoff:
            yield (*place, key), f"must be given with the kind {kind}"
    known = {key for keys in _ALLOWED.values() for key in keys}
    for key in backoff:
        if key in known and key not in _ALLOWED[kind]:
            yield (*place, key), f"is not for the kind {kind}"


def _find_own_queue(
    rule: Tree, place: tuple[int | str, ...], own_queues: frozenset[str]
) -> Iterator[Clash]:
    match rule.get("match"):
        case {"queue": str(queue)}:
            queues = [queue]
        case {"queue": [*several]}:
            queues = [str(each) for each in several]
        case _:
            return
    if queues and len(globs.plain(queues)) == len(queues) and own_queues.issuperset(queues):
        named = ", ".join(queues)
        yield (*place, "match", "queue"), f"matches only what Retrier itself empties: {named}"
