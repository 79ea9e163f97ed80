"""Which changes each transaction of the processor may make; all others are findings."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.properties.model.account import ISSUED, UNRESOLVED, Account, Message
from tests.properties.model.look import Seen
from tests.properties.model.requests import Requests
from tests.properties.model.sends import Sends
from tests.properties.model.tally import note
from tests.support.factories import ERROR_QUEUE

MARKING = ("open_batch", "claim_messages")
"""What claims messages: where marking takes one transaction, and where it takes several."""


class Following:
    """Follows what the processor does to messages, one committed transaction after the other."""

    def __init__(self, account: Account, requests: Requests, sends: Sends) -> None:
        self._account = account
        self._requests = requests
        self._sends = sends
        self._looked: dict[str, Message] = {}
        """What marking saw of the messages that changed before it claimed them."""

    def get_between(self, act: Callable[[], None]) -> None:
        """Let something happen between marking's look and its claims."""
        seen = {key: replace(each) for key, each in self._account.messages.items()}
        act()
        now = self._account.messages
        self._looked = {
            key: each
            for key, each in seen.items()
            if (each.status, each.since) != (now[key].status, now[key].since)
        }

    def follow(self, verb: str, seen: dict[str, Seen]) -> Iterator[str]:
        """Yield what this transaction may not have done; believe the rest of it."""
        known = self._account.messages
        if seen.keys() != known.keys():
            yield f"{verb}: messages came or went: {sorted(seen.keys() ^ known.keys())}"
        for key, now in seen.items():
            before = known.get(key)
            if before is None or (before.status, before.claim) == (now.status, now.claim):
                continue
            if not self._may(verb, key, before, now):
                yield f"{verb} may not turn {key} from {before} into {now}"
            self._believe(verb, key, before, now)
        if verb in MARKING:
            self._looked = {}

    def _may(self, verb: str, key: str, before: Message, now: Seen) -> bool:
        match verb:
            case "open_batch" | "claim_messages":
                return self._may_claim(key, before, now)
            case "begin_forwarding":
                left = self._may_eject(before, now) or self._may_drop(before, now)
                return left or self._may_issue(before, now)
            case "open_window":
                return self._may_settle(before, now)
            case "move_rest":
                return _only_moved(before, now) or self._may_release(before, now)
            case "release_batch" | "complete_batch":
                return self._may_release(before, now)
            case _:
                return False

    def _may_claim(self, key: str, before: Message, now: Seen) -> bool:
        if before.claim is not None or now.claim is None:
            return False
        fresh = not now.claim.stamped and not now.claim.recorded
        looked = self._looked.get(key, before)
        if looked is not before:
            self._account.stale.add(now.claim.retry_id)
            note("  a claim that never held")
        wanted = self._requests.may_claim(now.claim.operation_id, key, looked.since)
        kept = before.status == now.status and looked.status == UNRESOLVED
        return fresh and wanted and kept and looked.claim is None

    def _may_issue(self, before: Message, now: Seen) -> bool:
        """Say whether it was staged, by the claim that it had and that held."""
        if now.claim is None or now.claim.retry_id in self._account.stale:
            return False
        return before.claim == now.claim and now.status == ISSUED

    def _may_drop(self, before: Message, now: Seen) -> bool:
        """Say whether a claim that never held is gone, and nothing else."""
        stale = before.claim is not None and before.claim.retry_id in self._account.stale
        return stale and now.claim is None and before.status == now.status

    def _may_release(self, before: Message, now: Seen) -> bool:
        """Say whether its operation was cancelled, and it was not stamped."""
        claim = before.claim
        if claim is None or now.claim is not None or claim.stamped:
            return False
        settled = before.status == now.status and before.status != ISSUED
        freed = before.status == ISSUED and now.status == UNRESOLVED
        return claim.operation_id in self._requests.cancelled and (settled or freed)

    def _may_eject(self, before: Message, now: Seen) -> bool:
        if before.claim is None or not _was_given_up(before, now):
            return False
        return before.queue == ERROR_QUEUE or before.claim.retry_id in self._sends.refused

    def _may_settle(self, before: Message, now: Seen) -> bool:
        if _was_given_up(before, now):
            return before.claim is not None and self._sends.was_not_taken(before.claim.retry_id)
        if before.claim is None or now.claim is None or before.status != now.status:
            return False
        same = before.claim.retry_id == now.claim.retry_id
        if before.claim.operation_id in self._requests.cancelled and not before.claim.stamped:
            return False
        arrived = self._sends.accepted[now.claim.retry_id] > 0
        recorded = now.claim.recorded and not before.claim.recorded
        return same and now.claim.stamped and (arrived or not recorded)

    def _believe(self, verb: str, key: str, before: Message, now: Seen) -> None:
        gone = before.claim is not None and now.claim is None and before.claim
        # A claim that never held ends without a word: its message keeps its failure number. So does
        # one that is released before it was staged.
        released = verb == "release_batch" and before.status == UNRESOLVED
        held = gone and gone.retry_id not in self._account.stale
        if held and not released and now.status == UNRESOLVED:
            self._account.take_back(key)
        before.status, before.claim = now.status, now.claim


def _was_given_up(before: Message, now: Seen) -> bool:
    """Say whether a claimed message is unresolved again, and says why."""
    given_up = before.claim is not None and now.claim is None
    return given_up and now.status == UNRESOLVED and bool(now.reason)


def _only_moved(before: Message, now: Seen) -> bool:
    """Say whether nothing but the batch of an unrecorded claim changed."""
    if before.claim is None or now.claim is None or before.claim.recorded:
        return False
    parts = ("retry_id", "operation_id", "stamped", "recorded")
    same = all(getattr(before.claim, part) == getattr(now.claim, part) for part in parts)
    return same and before.status == now.status
