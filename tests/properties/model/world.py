"""The world: a real database, processor, ingestion and gateway, a scripted broker, the account."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from retrier.domain.breakers import BreakerRules, BreakerTerms
from retrier.domain.failed_message import Received
from retrier.domain.recording import Recorded
from retrier.gateway import Gateway
from retrier.ingestion.ingestor import Ingestor
from retrier.ingestion.parsing import QueueMapping
from retrier.overlap import WhileInFlight, is_sure, nothing_else
from retrier.processor.lease import Lease
from retrier.processor.processor import Processor
from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from retrier.store.upkeep import probe_write
from tests.properties.model.account import MOST_FAILURES, Account
from tests.properties.model.following import MARKING, Following
from tests.properties.model.look import completed, look
from tests.properties.model.many import ManyActs
from tests.properties.model.requests import Requests
from tests.properties.model.sends import STAGING, Sends
from tests.properties.model.streams import RULES
from tests.properties.model.watched import WatchedTransport
from tests.support.bench import Bench, Killed
from tests.support.between import BetweenLookAndClaims
from tests.support.factories import ERROR_QUEUE
from tests.support.flaky_database import FlakyDatabase
from tests.support.imports import make_imports
from tests.support.policies import SomePolicies

WINDOW = 2
POLICIES = SomePolicies(
    attempts=MOST_FAILURES, delay=timedelta(hours=1), then_manual=True, streams=RULES
)
"""What fails is scheduled for a time that does not come, or left to a person."""
PATIENCE = timedelta(seconds=0.3)
QUEUES = ("orders", "billing")
QUIET = (
    "record_staging_ids",
    "renew_lease",
    "acquire_lease",
    "release_lease",
    "probe_write",
    "get_installation_id",
)
OF_OTHERS = (
    "record_received",
    "do_at_once",
    "retry_pending",
    "delete_chunk",
    "schedule",
    "revive",
    "declare_dead",
    "ask_edit",
    "release_stream",
)
"""What ingestion, people and retention do to messages: the account foretells all of it."""
BETWEEN_LOOK_AND_CLAIMS = "between look and claims"


class World:
    """Everything there is. `findings` collects what is wrong: the loops outlive any exception."""

    def __init__(self, db: Database) -> None:
        self.findings: list[str] = []
        self.account = Account()
        self.requests = Requests()
        self.flaky = FlakyDatabase(db)
        refused: set[str] = set()
        self.transport = WatchedTransport(refused, self.note_risk)
        self.sends = Sends(codec=self.transport.codec, window=WINDOW, refused=refused)
        self.following = Following(db, self.account, self.requests, self.sends)
        self.acting: Callable[[], object] = lambda: None
        """What the transaction of a person that is under way does to the account."""
        self.recording: Sequence[Received] = ()
        self.ingesting = False
        self.changed = True
        """Whether anything was committed since the store was verified."""
        self.zombies: list[tuple[Processor, Lease]] = []
        self.moment: tuple[str, int, Callable[[], object]] | None = None
        self.bench = Bench(
            self.flaky,
            transport=self.transport,
            window=WINDOW,
            marker_timeout=PATIENCE,
            drain_timeout=PATIENCE,
            judge=POLICIES.judging(),
        )
        self.bench.breaker_rules = BreakerRules(default=BreakerTerms(least=2))
        for queue in QUEUES:
            self.transport.broker.declare(queue)
        self._be_told()
        self.gateway = Gateway(
            self.flaky,
            lambda: None,
            frozenset({ERROR_QUEUE, STAGING}),
            imports=make_imports(self.flaky),
        )
        self.many = ManyActs(self.flaky, self.account)
        self._between = BetweenLookAndClaims(db, self._get_between)
        self._start_ingestion()

    def _be_told(self) -> None:
        self.flaky.before = self._before
        self.flaky.after = self._after
        self.transport.before_call = self.reach
        self.transport.after_call = lambda call: self.reach(f"after {call}")

    def close(self) -> None:
        """Let go of the database."""
        self._between.close()

    def at(self, moment: str, time: int, deed: Callable[[], object]) -> None:
        """Let something happen the n-th time that the engine comes to this moment."""
        self.moment = (moment, time, deed)

    def reach(self, moment: str) -> None:
        """Be told of a moment."""
        if self.moment is None or self.moment[0] != moment:
            return
        _, left, deed = self.moment
        self.moment = (moment, left - 1, deed) if left > 1 else None
        if left <= 1:
            deed()

    def turn(self) -> bool:
        """Let the processor take one turn of its loop; say whether it goes on at once."""
        try:
            pause = self.bench.take_turn()
        except Killed:
            self.die()
            return True
        if pause:
            self.bench.clock.advance(pause)
            self.bench.end_waits()
        return not pause

    def ingest(self) -> int:
        """Let ingestion take one turn of its loop; return how many messages are left."""
        if not self.ingesting:
            self.ingesting = True
            try:
                self.ingestor._turn()  # noqa: SLF001 - one turn of the loop, without its thread
            except Killed:
                self.die()
            finally:
                self.ingesting = False
        return len(self.transport.broker.holds(ERROR_QUEUE))

    def die(self) -> None:
        """Let the process die, and another one start."""
        self.note_risk()
        self.moment = None
        self.zombies.clear()
        self.flaky.heal()
        self.bench.restart()
        self._start_ingestion()

    def stop_in_good_order(self) -> None:
        """Stop by a signal, and start again: nothing may be in doubt afterwards."""
        self.flaky.heal()
        self.bench.stop()
        self.bench.restart()
        self._start_ingestion()

    def take_over(self) -> None:
        """Let another process become the processor; this one lives on and does not know."""
        self.note_risk()
        self.zombies.append((self.bench.processor, self.bench.context.lease))
        self.flaky.heal()
        self.bench.start()

    def wake_zombie(self) -> bool:
        """Let a processor that lost its lease go on for one turn, whether it has heard of it or not."""
        if not self.zombies:
            return False
        zombie, lease = self.zombies.pop()
        had_heard = not lease.held
        zombie._turn()  # noqa: SLF001 - one turn of the loop, without its thread
        if had_heard and lease.held:
            # It was the processor once more, and ends in the middle of its work.
            self.note_risk()
        return True

    def note_risk(self) -> None:
        """Note that whatever is being sent and not recorded may be sent once more."""
        self._look_at_sends()
        claims = [each.claim for each in look(self.flaky).values() if each.claim]
        self.sends.doubt(each.retry_id for each in claims if each.stamped and not each.recorded)

    def check(self) -> None:
        """Look at what follows no transaction."""
        self._look_at_sends()
        self.findings += self.sends.too_many()
        unforeseen = {"processor.turn_failed"} & set(self.bench.told.names)
        odd = self.ingestor.state.reason or ""
        self.findings += [*unforeseen, *([odd] if "unforeseen" in odd else [])]

    def _before(self, verb: str) -> None:
        if verb in MARKING:
            self.following.note_holding(first=True)
        self.reach(f"before {verb}")
        if verb in MARKING:
            self.following.note_holding(first=False)

    def _after(self, verb: str) -> None:
        """Compare the account with the database after a committed transaction."""
        self.changed = True
        if verb not in QUIET:
            self._follow(verb)
        self.reach(f"after {verb}")

    def _follow(self, verb: str) -> None:
        if verb == "write_down":
            self.many.note_written()
        if verb == "record_received":
            self.account.record(self.recording)
        elif verb in OF_OTHERS:
            self.acting()
        seen = look(self.flaky)
        if verb in OF_OTHERS:
            self.findings += [f"{verb}: {each}" for each in self.account.differences(seen)]
        elif verb == "work_off":
            self.findings += [f"{verb}: {each}" for each in self.many.follow(seen)]
        else:
            self._look_at_sends()
            self.findings += self.following.follow(verb, seen)
        if verb in MARKING:
            self.findings += self.requests.close(completed(self.flaky), self.account)

    def _get_between(self) -> None:
        self.following.get_between(lambda: self.reach(BETWEEN_LOOK_AND_CLAIMS))

    def _look_at_sends(self) -> None:
        self.findings += self.sends.look(self.transport.published, self.account)

    def _start_ingestion(self) -> None:
        self.bench.crash_at = self.reach
        self.ingestor = Ingestor(
            mapping=QueueMapping(queue=ERROR_QUEUE),
            transport=self.transport,
            record=self._record,
            probe=lambda: probe_write(self.flaky),
            clock=self.bench.clock,
            emit=self.bench.emit,
        )

    def _record(
        self,
        received: Sequence[Received],
        *,
        while_in_flight: WhileInFlight = nothing_else,
        make_sure: Callable[[], None] = is_sure,
    ) -> Recorded:
        self.recording = self.sends.tell_copies(received)
        return record_received(
            self.flaky,
            received,
            instance="test",
            judge=POLICIES.judging(),
            while_in_flight=while_in_flight,
            make_sure=make_sure,
        )
