"""What both faces are built from: who asks, places for requests at work, looks at queues, policies."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Self

from fastapi import Request

from retrier.domain.access import HIDDEN, OPEN, Access, How, QueuePatterns, Right
from retrier.domain.dialects.dialect import NOT_KNOWN
from retrier.domain.edits import ShownEdit, without_values
from retrier.domain.failed_imports import Told, Trial, TriedMessage
from retrier.domain.search import find_undeclared, find_ways
from retrier.domain.selection import Part, without_content
from retrier.domain.text import clean
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.errors import ConfigurationError, NotAllowed
from retrier.gateway import Gateway
from retrier.http.access import Gate
from retrier.http.cache import AnswerCache
from retrier.http.problems import NO_FULL_TEXT, WrongField, later
from retrier.policy.policy_set import InForce, PolicySet
from retrier.store.engine.database import Database
from retrier.store.policies import Bounds, SimulatedBefore, simulate_policies
from retrier.store.previews import MOST_LINES, By, Preview, Unsendable
from retrier.store.search import Found, search

LONGEST_NAME = 200
"""Characters, of up to four bytes each."""
_MOST_BYTES = 4 * LONGEST_NAME
LONGEST_KEY = 255
"""Characters of an idempotency key."""
NOBODY = "anonymous"


def one_line(text: str, most: int) -> str:
    """Return text in one printable line of at most so many bytes."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return clean(line.strip(), most).strip()


def name_of(request: Request, otherwise: str = "") -> str:
    """Return the name that a request gives, or the other one; NOBODY if there is neither."""
    # Header bytes come as Latin-1, but most are UTF-8.
    told = request.headers.get("x-retrier-user", "").encode("latin-1", "replace")
    name = one_line(told.decode("utf-8", "replace") or otherwise, _MOST_BYTES)
    return name[:LONGEST_NAME].strip() or NOBODY


def asked_by(request: Request, access: Access, otherwise: str = "") -> str:
    """Return who asks and from where, as it is shown with what is asked for.

    Who is logged in, or has a token, is named; what they call themselves stands only beside it:
    `ci (token deploy, 10.0.0.7)`.
    """
    address = request.client.host if request.client else "unknown address"
    called = name_of(request, otherwise)
    if access.how is How.OPEN:
        return f"{called} ({address})"
    known = f"token {access.name}" if access.how is How.TOKEN else access.name
    return f"{known} ({address})" if called == NOBODY else f"{called} ({known}, {address})"


AT_WORK = 8
"""Requests of a kind at work at once: each may hold a thread and a database connection."""

WAITING = 100
"""Requests of a kind that wait for a place; they hold neither thread nor connection."""

WAIT_TIMEOUT = 5.0
"""Seconds to wait for a place."""

READING = frozenset({"GET", "HEAD"})
"""Methods that change nothing: reads have places of their own."""


class Places:
    """The places of one kind of requests.

    While something is locked in the database, the requests that need it hang. Without a bound they
    would take every thread of the server and every connection (decision 0021).
    """

    def __init__(
        self, at_work: int = AT_WORK, waiting: int = WAITING, timeout: float = WAIT_TIMEOUT
    ) -> None:
        self._most_waiting = waiting
        self._timeout = timeout
        self._waiting = 0
        self._free = asyncio.Semaphore(at_work)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a place while the context is open. Raises HTTPException if none is free in time."""
        await self._take()
        try:
            yield
        finally:
            self._free.release()

    async def _take(self) -> None:
        if self._waiting >= self._most_waiting:
            raise later(f"{self._waiting} requests like this wait already.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError:
            raise later(
                f"Other requests like this are being answered, and none ended within "
                f"{self._timeout:g} s."
            ) from None
        finally:
            self._waiting -= 1


Health = Mapping[str, tuple[bool, str]]
"""For each part of this process whether it works, and a reason."""

_OTHER_SIMULATION = "Another simulation is running. Try again when it is over."
_SIMULATION_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingQueues:
    """Which queues the broker does not have.

    `unsure` says of single queues why it is not known; `why_not` says why the look ended early, and
    `not_looked_at` for how many of how many queues.
    """

    missing: frozenset[str] = frozenset()
    unsure: Mapping[str, str] = field(default_factory=dict)
    why_not: str | None = None
    not_looked_at: tuple[int, int] = (0, 0)


def see_nothing(_queues: Sequence[str]) -> MissingQueues:
    """Take every queue for existing, without a look."""
    return MissingQueues()


WhyNot = Callable[[str], str | None]
"""Returns why no retry is sent to a queue; None if it is."""


def try_nothing(_messages: Sequence[TriedMessage], _trial: Trial) -> Sequence[Told]:
    """Tell nothing of any message. Raises ConfigurationError elsewhere, for formats that are wrong."""
    return ()


def closed_of(found: Preview, why_not: WhyNot) -> Mapping[str, str]:
    """Return the destinations to which nothing will be sent, and why; what is not known aside."""
    told = ((each, why_not(each)) for each in found.destinations)
    return {queue: why for queue, why in told if why is not None}


def warnings_of_missing(
    counts: Mapping[str, int], seen: MissingQueues, marked: AbstractSet[str] = frozenset()
) -> Iterator[str]:
    """Yield the words about missing queues, those of most messages first.

    Of very many the first are named, and the others summed. `counts` has how many messages would go
    to each; `marked` are told elsewhere.
    """
    told = sorted(seen.missing - marked, key=lambda each: (-counts.get(each, 0), each))
    for queue in told[:MOST_LINES]:
        yield f"The queue {queue} does not exist: retries to it fail."
    rest = told[MOST_LINES:]
    if rest:
        count = sum(counts.get(each, 0) for each in rest)
        verb = "queue does" if len(rest) == 1 else "queues do"
        yield f"{len(rest):,} more {verb} not exist: {count:,} retries to them fail."


def warnings_of_unseen(seen: MissingQueues) -> Iterator[str]:
    """Yield the words about queues of which it is not known whether they exist."""
    for queue, why_not in sorted(seen.unsure.items()):
        yield f"It is not known whether the queue {queue} exists: {why_not}."
    if seen.why_not is not None:
        yield f"{_how_many_not(seen)}: {seen.why_not}."


def _how_many_not(seen: MissingQueues) -> str:
    left, asked = seen.not_looked_at
    if left == asked:
        return "Nobody looked whether these queues exist"
    return f"{left:,} of {asked:,} queues were not looked at: it is not known whether they exist"


def warnings_of(
    found: Preview, seen: MissingQueues, closed: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the kind and the words of what is to be known before a retry, missing queues aside."""
    for line in found.all_destinations:
        if line.key in closed:
            messages = f"{line.count:,} message{' is' if line.count == 1 else 's are'}"
            yield (
                "destination_closed",
                (
                    f"{messages} not sent: {closed[line.key]}. Name another queue for this retry, "
                    "or redirect this one."
                ),
            )
    for text in warnings_of_unseen(seen):
        yield "not_looked_at", text
    for line in found.lines(By.REDIRECTS):
        messages = f"{line.count:,} message{'' if line.count == 1 else 's'}"
        yield "redirect", f"A redirect applies: {messages} for {line.key} go to {line.name}."
    nowhere = sum(line.count for line in found.all_destinations if line.key == NOT_KNOWN)
    if nowhere:
        messages = f"{nowhere:,} message{'' if nowhere == 1 else 's'}"
        yield (
            "destination_unknown",
            (
                f"No destination is known of {messages}: what failed names no queue. They are not sent "
                "unless you name a queue for this retry, or redirect the error queue they were found on."
            ),
        )
    if found.unsendable is not None:
        yield "unsendable", _of_unsendable(found.unsendable)
    lost = sum(line.count for line in found.lines(By.LOST))
    if lost:
        messages = f"{lost:,} message{'' if lost == 1 else 's'}"
        yield (
            "lost_if_it_fails",
            (
                f"{messages} would be lost if they fail again: a stamp of Symfony stands in the body and cannot be cut out, "
                "and with it Symfony drops the next failure. Repair what failed first."
            ),
        )
    copies = sum(line.count for line in found.lines(By.COPIES))
    if copies:
        messages = f"{copies:,} message{'' if copies == 1 else 's'}"
        yield "maybe_copies", f"{messages} of them may be copies of other failed messages."


def _of_unsendable(found: Unsendable) -> str:
    messages = f"{found.count:,} message{'' if found.count == 1 else 's'}"
    rest = "" if found.is_all else f" of the first {found.looked_at:,}"
    others = "" if found.is_all else " Others were not looked at."
    return (
        f"{messages}{rest} can never be sent: {found.example}. The retry will revert them, unless a patch, an "
        f"edit or a header that is left out changes that.{others}"
    )


def have_none() -> InForce:
    """Return what is in force where there are no policies."""
    return InForce(
        policies=PolicySet(), is_configured=False, loaded_at=datetime(1970, 1, 1, tzinfo=UTC)
    )


def refuse_policies(_content: object) -> PolicySet:
    """Read no other policies. Raises ConfigurationError."""
    raise ConfigurationError(["policies: they cannot be read here"])


MOST_SIGHTS = 50
"""Different rights whose connections stay open; who has others opens them anew."""


class Sights:
    """What each may see of the database: all of it, or what belongs to some queues."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: OrderedDict[QueuePatterns, Database] = OrderedDict()
        self._lock = Lock()

    def of(self, queues: QueuePatterns) -> Database:
        """Return the database with what belongs to queues of these patterns only."""
        with self._lock:
            found = self._known.get(queues)
            if found is None:
                found = self._known[queues] = self._db.narrowed(queues)
            self._known.move_to_end(queues)
            if len(self._known) > MOST_SIGHTS:
                self._known.popitem(last=False)[1].dispose()
            return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceParts:
    """What the handlers of a face work with.

    `db` is for reading, and `codec` decodes the properties of what is read. `health` returns for
    each part of this process whether it works, and a reason. `look_at` looks for queues.
    `try_messages` tells what messages would be, and changes nothing. `policies` returns the set in force; one simulation of others runs at a time (`simulating`). `reads` and
    `acts` bound how many requests are at work. `session_id` is what this process is called in the
    lease. `gate` finds out who asks; `access` is who does.
    `field_names` are the declared fields by which messages are found; `full_text` says whether they
    are by words, too.
    """

    db: Database
    sights: Sights
    codec: PropertyCodec
    gateway: Gateway
    version: str
    health: Callable[[], Health] = dict
    look_at: Callable[[Sequence[str]], MissingQueues] = see_nothing
    try_messages: Callable[[Sequence[TriedMessage], Trial], Sequence[Told]] = try_nothing
    policies: Callable[[], InForce] = have_none
    session_id: str = ""
    field_names: Sequence[str] = ()
    full_text: bool = False
    reads: Places = field(default_factory=Places)
    acts: Places = field(default_factory=Places)
    simulating: Lock = field(default_factory=Lock)
    gate: Gate = field(default_factory=Gate)
    cache: AnswerCache = field(default_factory=AnswerCache)
    access: Access = OPEN

    def of(self, access: Access) -> Self:
        """Return the same for a request of somebody with these rights."""
        if access is OPEN:
            return self
        bound = replace(self, access=access, gateway=self.gateway.of(access))
        if access.seen is None:
            return bound
        # What was found for others is not for who sees some queues only.
        return replace(bound, db=self.sights.of(access.seen), cache=AnswerCache())

    def must_see_all(self) -> None:
        """Raise NotAllowed for who sees own queues only: it tells of all of them."""
        if self.access.seen is not None:
            raise NotAllowed(
                f"This tells of all queues; {self.access.shown} sees {self.access.shown_queues} only."
            )

    @property
    def shows_content(self) -> bool:
        """Whether who asks may read bodies and the values of headers."""
        return self.access.may(Right.READ_CONTENT)

    @property
    def finds_words(self) -> bool:
        """Whether who asks may find messages by the words in them: yes and no would tell all."""
        return self.full_text and self.shows_content

    def search(self, text: str) -> Found:
        """Look up what a person has typed. Raises DatabaseUnavailable."""
        names = self.field_names if self.shows_content else ()
        return search(self.db, text, find_ways(text, names, full_text=self.finds_words))

    def undeclared_in(self, text: str) -> Sequence[str]:
        """Return the names of fields in what a person has typed that no field is called.

        None for who may not read content: that person finds nothing by fields.
        """
        return find_undeclared(text, self.field_names) if self.shows_content else ()

    def must_find_words(self, field: str) -> None:
        """Refuse a condition on words. Raises NotAllowed for who may not read them, WrongField."""
        self.gateway.guard.must(Right.READ_CONTENT)
        if not self.full_text:
            raise WrongField(field, NO_FULL_TEXT)

    def headers(self, told: Mapping[str, object]) -> Mapping[str, object]:
        """Return headers of a message, without their values if who asks may not read them."""
        return told if self.shows_content else dict.fromkeys(told, HIDDEN)

    def conditions(self, told: Mapping[str, Part]) -> Mapping[str, Part]:
        """Return conditions by name, without the values of those on content, by the same rule."""
        return told if self.shows_content else without_content(told, HIDDEN)

    def changes(self, told: Sequence[ShownEdit]) -> Sequence[ShownEdit]:
        """Return edits of a message, without the values that changed, by the same rule."""
        return told if self.shows_content else [without_values(each, HIDDEN) for each in told]

    def places_for(self, method: str) -> Places:
        """Return the places of a kind of requests: reads cannot block acts, nor acts reads."""
        return self.reads if method in READING else self.acts

    def simulate(self, policies: PolicySet, since: timedelta) -> SimulatedBefore:
        """Judge stored failures by policies. Raises HTTPException while another one does."""
        if not self.simulating.acquire(blocking=False):
            raise later(_OTHER_SIMULATION, _SIMULATION_SECONDS)
        try:
            return simulate_policies(self.db, policies, self.codec, Bounds(since=since))
        finally:
            self.simulating.release()
