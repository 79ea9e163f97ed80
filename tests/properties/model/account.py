"""The model's own account of every message: what must be true of it, in the plainest words."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from retrier.domain.failed_message import Confirmation, FailedImport, Failure, OwnCopy, Received
from retrier.domain.retry_operation import STANDING_OPERATION
from tests.properties.model.look import Claim, Seen
from tests.properties.model.streams import Place, held, place_of, rule_of, stay

UNRESOLVED, ISSUED, RESOLVED, ARCHIVED = "unresolved", "retry_issued", "resolved", "archived"
DUE, LATER = "due", "later"
PENDING = (UNRESOLVED, ISSUED)
PATCH = {"body": {"replace": ["message ([0-9]*[02468])$", r"patched \1"]}}
"""It changes every second message, and none twice."""
WORDS = ("archive", "resolve", "declare dead")
"""What a person says of a message so that nothing sends it by itself."""
MOST_FAILURES = 3
"""So often a message fails before a person decides about it."""


@dataclass(slots=True)
class Message:
    """One message. `since` numbers the moment at which it became unresolved last.

    It is `dead` if a person declared it so, or if its retry can never be sent, until it changes its
    status. `word` is what a person said of it last. `failures` is its count, and `counted` has the
    retries in it.
    """

    status: str
    since: int
    queue: str
    groups: frozenset[str]
    last_failure: datetime | None
    body: bytes
    first_queue: str
    """Where it failed first; its newest failure was on `queue`."""
    claim: Claim | None = None
    scheduled: str = ""
    """When a policy retries it: DUE or LATER; empty if a person decides."""
    confirmed: bool = False
    confirmed_at: datetime | None = None
    attempts: int = 1
    dead: bool = False
    word: str = ""
    failures: int = 1
    counted: set[str] = field(default_factory=set)
    stream: Place | None = None
    rule: str | None = None
    """The stream it is in, and whether it waits there for earlier ones."""
    released: bool = False
    edited: bool = False
    """Whether it is resolved because an edited version of it was sent."""
    kept: tuple[str, bool] = "", False
    """While it is archived: whether it was scheduled, and dead, before."""

    def judge(self) -> None:
        """Decide as the policies of the model do."""
        self.scheduled = LATER if self.failures < MOST_FAILURES else ""

    def leave(self, before: "Message", *, is_copy: bool) -> None:
        """Leave it as it was: what a person said and what is dead, and for a copy whatever stood."""
        self.word = before.word
        was_open = before.status == UNRESOLVED
        if self.word or is_copy or (was_open and before.dead):
            self.scheduled = before.scheduled if was_open else ""
            self.dead = was_open and before.dead


@dataclass(slots=True)
class Account:
    """All messages, and the deliveries counted."""

    messages: dict[str, Message] = field(default_factory=dict)
    now: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    stale: set[str] = field(default_factory=set)
    """Retries of messages that changed as they were claimed: such a claim never held."""
    edits: dict[str, bytes] = field(default_factory=dict)
    """By the retry that sends it, the body that a person wrote instead of a message's own."""
    patching: set[str] = field(default_factory=set)
    """Operations that patch what they send."""
    patched: dict[str, bytes | None] = field(default_factory=dict)
    """By the retry of such an operation, what the patch makes of its message; None if nothing."""
    deleted_attempts: int = 0
    _stored: dict[str, set[str]] = field(default_factory=dict)

    def tick(self) -> int:
        """Return a number later than all before."""
        self.now += 1
        return self.now

    def record(self, received: Sequence[Received]) -> None:
        """Take in one received batch: failures first, then confirmations."""
        self.counted["taken_off"] += len(received)
        before = {key: set(messages) for key, messages in self._stored.items()}
        batch: dict[str, set[str]] = {}
        for each in received:
            if isinstance(each, Failure):
                self._fail(each, before, batch)
        for each in received:
            if isinstance(each, Confirmation):
                self._confirm(each, before)
        self._import([each for each in received if isinstance(each, FailedImport)], before)
        self.counted["own_copies"] += sum(isinstance(each, OwnCopy) for each in received)

    def why_not(self, act: str, key: str) -> bool:
        """Say whether an act is refused: nothing is done to what is being sent."""
        message = self.messages.get(key)
        if message is None:
            return True
        claim = message.claim
        if claim is not None and claim.stamped and not claim.recorded:
            return True
        allowed = {
            "archive": message.status in PENDING and not (claim and claim.recorded),
            "resolve": message.status in PENDING,
            "unarchive": message.status == ARCHIVED,
            "release": claim is not None and claim.recorded,
            "declare dead": message.status == UNRESOLVED and not message.dead,
            "revive": message.dead and claim is None,
            "edit": message.status == UNRESOLVED and claim is None and not message.dead,
        }
        return not allowed[act]

    def act(self, act: str, ids: Iterable[str]) -> list[str]:
        """Do an act to whatever may be; return those that it was done to."""
        done = [key for key in dict.fromkeys(ids) if not self.why_not(act, key)]
        for key in done:
            message = self.messages[key]
            before, back = (message.scheduled, message.dead), message.kept
            message.claim, message.scheduled, message.kept = None, "", ("", False)
            if act in ("unarchive", "release", "declare dead"):
                self._become_unresolved(message)
            else:
                message.status = ARCHIVED if act == "archive" else RESOLVED
            message.dead = act == "declare dead"
            message.word = act if act in WORDS else ""
            if act == "archive":
                message.kept = before
            elif act == "unarchive":
                message.scheduled, message.dead = back
                message.word = "declare dead" if message.dead else ""
        return done

    def edit(self, key: str, claim: Claim, body: bytes) -> None:
        """Take an edit of a message, with the claim that it got in the same moment."""
        self.messages[key].claim = claim
        self.edits[claim.retry_id] = body

    def note_patch(self, key: str, claim: Claim) -> None:
        """Note what the retry sends if its operation has a patch."""
        if claim.operation_id in self.patching:
            self.patched[claim.retry_id] = patch(self.messages[key].body)

    def body_of(self, key: str, retry_id: str) -> bytes | None:
        """Return what a retry of a message may send; None if nothing of it."""
        if retry_id in self.edits:
            return self.edits[retry_id]
        if retry_id in self.patched:
            return self.patched[retry_id]
        return self.messages[key].body if key in self.messages else None

    def settle_edited(self, key: str) -> None:
        """Note that the edited version of a message is recorded as sent."""
        message = self.messages[key]
        message.edited, message.confirmed, message.confirmed_at = True, False, None

    def schedule(self, key: str, when: str) -> bool:
        """Let a policy decide about a message; say whether it may: nobody has claimed it."""
        message = self.messages.get(key)
        if message is None or message.status != UNRESOLVED or message.claim is not None:
            return False
        if message.failures == 0:
            return False
        self._become_unresolved(message)
        message.scheduled, message.word = when, ""
        return True

    def release(self, stream: Place) -> list[str]:
        """Let go of what is held in a stream; return what that was."""
        done = held(self.messages, stream)
        for key in done:
            self.messages[key].released = True
        return done

    def step_clock(self, which: str) -> bool:
        """Note that all times have come, or lie ahead again; say whether there was one."""
        planned = [message for _, message in self.all() if message.scheduled]
        for message in planned:
            message.scheduled = which
        return bool(planned)

    def delete(self, status: str, *, confirmed: bool) -> list[str]:
        """Delete what is settled in this way and has no claim; return what that was."""
        gone = [
            key
            for key, each in self.all()
            if (each.status, each.claim) == (status, None)
            and (each.confirmed, each.edited) == (confirmed, False)
        ]
        for key in gone:
            self.deleted_attempts += self.messages.pop(key).attempts
            for keys in self._stored.values():
                keys.discard(key)
        self.counted["deleted"] += len(gone)
        return gone

    def differences(self, seen: dict[str, Seen]) -> list[str]:
        """Return where the database says something else."""
        ours = {key: sum_up(each) for key, each in self.all()}
        theirs = {key: sum_up(each) for key, each in seen.items()}
        return [
            f"{key}: should be {ours.get(key)}, is {theirs.get(key)}"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]

    def all(self) -> Iterable[tuple[str, Message]]:
        """Return every message with its id."""
        return self.messages.items()

    def take_back(self, key: str, *, cancelled: bool, hopeless: bool) -> None:
        """Note that a retry did not reach its queue: a new failure number, no claim.

        It counts, as one more if a policy asked for it, unless it was never sent because of a
        cancel. One that can never be sent is dead.
        """
        message = self.messages[key]
        message.word = ""
        claim, message.claim = message.claim, None
        self._become_unresolved(message)
        if claim is not None and not cancelled:
            by_policy = claim.operation_id == STANDING_OPERATION
            message.failures = message.failures + 1 if by_policy else 1
            message.counted |= {claim.retry_id}
            message.judge()
        if claim is not None and claim.retry_id in self.edits.keys() | self.patched.keys():
            # Nothing sends it by itself as it was: a person wanted it to be another.
            message.scheduled = ""
        elif hopeless:
            message.scheduled, message.dead = "", True

    def _become_unresolved(self, message: Message) -> None:
        message.status, message.since = UNRESOLVED, self.tick()
        message.scheduled, message.dead = "", False

    def _fail(
        self, failure: Failure, before: dict[str, set[str]], batch: dict[str, set[str]]
    ) -> None:
        key = failure.stamped_id or failure.computed_id or ""
        if failure.redelivered and key in before.get(failure.fingerprint, ()):
            self.counted["redelivered"] += 1
            return
        self._stored.setdefault(failure.fingerprint, set()).add(key)
        message = self.messages.get(key)
        self.counted["new" if message is None else "repeated"] += 1
        named = {failure.retry_id} if failure.retry_id else set()
        if message is None:
            self.messages[key] = _make(failure, self.tick())
            self.messages[key].judge()
            batch[key] = named
            return
        message.attempts += 1
        at = failure.details.time_of_failure
        if self._is_news(message, failure.retry_id, at):
            fresh = _make(failure, self.tick())
            fresh.attempts, fresh.first_queue = message.attempts, message.first_queue
            _count(fresh, message, named, batch.setdefault(key, set()))
            stay(fresh, message, rule_of(failure))
            self.messages[key] = fresh
        elif message.last_failure and at:
            message.last_failure = max(message.last_failure, at)

    def _is_news(self, message: Message, retry_id: str | None, at: datetime | None) -> bool:
        """Say whether a failure makes its message unresolved: the cause decides before the clock."""
        claim = message.claim
        if claim is not None and claim.retry_id not in self.stale and retry_id is not None:
            return retry_id == claim.retry_id
        by_hand = message.status == RESOLVED and not message.confirmed
        if by_hand or message.status in (ISSUED, ARCHIVED):
            return True
        latest = message.confirmed_at or message.last_failure
        return at is None or latest is None or at >= latest

    def _confirm(self, confirmation: Confirmation, before: dict[str, set[str]]) -> None:
        message = self.messages.get(confirmation.unique_message_id)
        if message is None:
            self._import([confirmation.if_unknown], before)
            return
        self.counted["confirmations"] += 1
        at, last = confirmation.succeeded_at, message.last_failure
        later = at is not None and last is not None and at > last
        # Failed elsewhere meanwhile, its consumer may have sent it there and confirms its own part.
        at_home = message.queue == message.first_queue
        if message.status == ISSUED or (message.status == UNRESOLVED and later and at_home):
            message.status, message.claim = RESOLVED, None
            message.scheduled, message.dead = "", False
            message.confirmed, message.confirmed_at = True, at

    def _import(self, imports: Iterable[FailedImport], before: dict[str, set[str]]) -> None:
        for each in imports:
            again = each.redelivered and "" in before.get(each.fingerprint, ())
            self.counted["redelivered" if again else "failed_imports"] += 1
            self._stored.setdefault(each.fingerprint, set()).add("")


def patch(body: bytes) -> bytes | None:
    """Return what the patch makes of a body; None if nothing."""
    made, number = re.subn(rb"message ([0-9]*[02468])$", rb"patched \1", body)
    return made if number else None


def sum_up(each: Message | Seen) -> tuple[object, ...]:
    """Return what the account and the database must agree about."""
    claim = each.claim.retry_id if each.claim else None
    decided = each.dead, bool(each.scheduled), each.failures
    return each.status, claim, *decided, each.stream, each.rule, each.released


def _count(fresh: Message, before: Message, named: set[str], batch: set[str]) -> None:
    """Count a failure, unless its retry was counted: in this batch, or when its claim ended."""
    claim = before.claim
    again = bool(named & (before.counted | batch))
    fresh.failures = max(1, before.failures + (0 if again else 1))
    fresh.counted = before.counted | ({claim.retry_id} if claim and claim.stamped else set())
    batch |= named | ({claim.retry_id} if claim else set())
    fresh.judge()
    fresh.leave(before, is_copy=again)


def _make(failure: Failure, number: int) -> Message:
    return Message(
        status=UNRESOLVED,
        since=number,
        queue=failure.details.queue,
        groups=frozenset(group.group_id for group in failure.cause.groups),
        last_failure=failure.details.time_of_failure,
        body=failure.body,
        first_queue=failure.details.queue,
        stream=place_of(failure),
        rule=rule_of(failure) if place_of(failure) else None,
    )
