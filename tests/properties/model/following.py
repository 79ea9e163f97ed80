"""Which changes each transaction of the processor may make; all others are findings."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.store.engine.database import Database
from tests.properties.model.account import (
    DUE,
    ISSUED,
    RESOLVED,
    UNRESOLVED,
    Account,
    Message,
    sum_up,
)
from tests.properties.model.breakers import Holding, look_at_breakers
from tests.properties.model.look import Seen
from tests.properties.model.requests import Requests
from tests.properties.model.sends import Sends
from tests.properties.model.streams import held
from tests.properties.model.tally import note
from tests.support.factories import ERROR_QUEUE

MARKING = ("cut_batch", "claim_messages")
"""What claims messages: where marking takes one transaction, and where it takes several."""
REVERTING = ("begin_forwarding", "open_window", "complete_batch")
"""What takes back retries that could not be sent; others only give back what was not sent yet."""


class Following:
    """Follows what the processor does to messages, one committed transaction after the other."""

    def __init__(self, db: Database, account: Account, requests: Requests, sends: Sends) -> None:
        self._db = db
        self._account = account
        self._requests = requests
        self._sends = sends
        self._looked: dict[str, Message] = {}
        """What marking saw of the messages that changed before it claimed them."""
        self._held: set[str] = set()
        """What streams held when marking looked."""
        self._holdings: list[Holding] = []
        """What breakers held before something got between, and what they held after it."""

    def note_holding(self, *, first: bool) -> None:
        """Look what breakers hold, before marking claims."""
        self._holdings = [*([] if first else self._holdings), look_at_breakers(self._db)]

    def get_between(self, act: Callable[[], None]) -> None:
        """Let something happen between marking's look and its claims."""
        self._held = set(held(self._account.messages))
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
        taken = list(self._taken(seen)) if verb in MARKING else []
        if seen.keys() != known.keys():
            yield f"{verb}: messages came or went: {sorted(seen.keys() ^ known.keys())}"
        for key, now in seen.items():
            before = known.get(key)
            if before is not None:
                yield from self._follow_one(verb, key, before, now)
        if verb in MARKING:
            self._looked = {}
            # A cut may have looked before a breaker was opened: Staging holds that back.
            wrong = [set(each.judge(taken)) for each in self._holdings]
            yield from sorted(set.intersection(*wrong))

    def _taken(self, seen: dict[str, Seen]) -> Iterator[tuple[str, str]]:
        """Yield what a cut took that no person has named, with the queue where it failed."""
        for key, now in seen.items():
            before = self._account.messages.get(key)
            if before is None or before.claim is not None or now.claim is None:
                continue
            if not self._requests.names(now.claim.operation_id):
                yield key, before.queue

    def _follow_one(self, verb: str, key: str, before: Message, now: Seen) -> Iterator[str]:
        if (before.status, before.claim) != (now.status, now.claim):
            if not self._may(verb, key, before, now):
                yield f"{verb} may not turn {key} from {before} into {now}"
            self._believe(verb, key, before, now)
        if sum_up(before) != sum_up(now):
            yield f"{verb} may not decide so about {key}: {before}, {now}"

    def _may(self, verb: str, key: str, before: Message, now: Seen) -> bool:
        match verb:
            case "cut_batch" | "claim_messages":
                return self._may_claim(key, before, now)
            case "begin_forwarding":
                left = self._may_eject(before, now) or self._may_drop(before, now)
                return left or self._may_issue(before, now)
            case "open_window":
                return self._may_settle(key, before, now)
            case "move_rest":
                return _only_moved(before, now) or self._may_release(before, now)
            case "complete_batch":
                return self._may_settle(key, before, now) or self._may_release(before, now)
            case "release_batch" | "hold_back":
                held_back = verb == "hold_back" and _may_hold_back(before, now)
                return held_back or self._may_release(before, now)
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
        if now.claim.operation_id == STANDING_OPERATION:
            wanted = looked.scheduled == DUE
        else:
            wanted = self._requests.may_claim(now.claim.operation_id, key, looked.since)
        kept = before.status == now.status and looked.status == UNRESOLVED
        free = looked.claim is None and key not in self._held
        return fresh and wanted and kept and free

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

    def _may_settle(self, key: str, before: Message, now: Seen) -> bool:
        if _was_given_up(before, now):
            retry_id = before.claim.retry_id if before.claim is not None else ""
            no_patch_fits = self._account.patched.get(retry_id, b"") is None
            return no_patch_fits or self._sends.was_not_taken(retry_id)
        if before.claim is not None and before.claim.retry_id in self._account.edits:
            is_over = now.claim is None and now.status == RESOLVED
            if is_over and before.claim.stamped and self._sends.accepted[before.claim.retry_id]:
                self._account.settle_edited(key)
                return True
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
        if before.claim is None and now.claim is not None:
            self._account.note_patch(key, now.claim)
        # A claim that never held ends without a word: its message keeps its failure number. So does
        # one that is released before it was staged.
        released = verb in {"release_batch", "hold_back"} and before.status == UNRESOLVED
        if gone and verb == "hold_back":
            # Its operation takes it again once the breaker is closed.
            self._requests.claimed[gone.operation_id].discard(key)
        held = gone and gone.retry_id not in self._account.stale
        if held and not released and now.status == UNRESOLVED:
            hopeless = verb == "begin_forwarding" and before.queue == ERROR_QUEUE
            reverted = verb in REVERTING
            self._account.take_back(key, cancelled=not reverted, hopeless=hopeless)
            if reverted and "may have arrived" in (now.reason or ""):
                # A person looks first: no policy sends it again (decision 0152).
                before.scheduled, before.dead = "", False
        if now.status == ISSUED != before.status and now.claim is not None:
            by_policy = now.claim.operation_id == STANDING_OPERATION
            before.failures, before.word = before.failures if by_policy else 0, ""
        before.status, before.claim = now.status, now.claim
        if now.status != UNRESOLVED:
            before.scheduled, before.dead = "", False


def _may_hold_back(before: Message, now: Seen) -> bool:
    """Say whether an unresolved message left its batch, of which nothing was sent."""
    claim = before.claim
    unsent = claim is not None and not claim.stamped and before.status == UNRESOLVED
    return unsent and now.claim is None and now.status == UNRESOLVED


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
