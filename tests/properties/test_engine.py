"""The retry engine against whatever may happen in any order: it keeps its promises at every step.

Set RETRIER_TEST_MODEL_EXAMPLES to a larger number for a long search.
"""

import os
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import select

from retrier.domain import headers
from retrier.domain.failed_message import Failure
from retrier.domain.wire import ChannelClosed, Outcome, Refused, Returned, Unknown
from retrier.processor.crash_points import CrashPoint
from retrier.store.operations import CreatedOperation
from retrier.store.schema import failed_messages, retry_operations
from tests.support.bench import QUEUE, STAGING, Bench, Killed
from tests.support.databases import open_upgraded, sqlite_url
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.flaky_database import FlakyDatabase
from tests.support.promises import count_up
from tests.support.script import to_queue

EXAMPLES = int(os.environ.get("RETRIER_TEST_MODEL_EXAMPLES", "25"))
STEPS = 30
WINDOW = 2
PATIENCE = timedelta(seconds=0.3)

messages = st.integers(0, 30)
times = st.sampled_from([None, FAILED_AT - timedelta(hours=1), FAILED_AT + timedelta(hours=3)])
verbs = st.sampled_from(
    ["open", "claim", "move_to_staging", "begin", "open_window", "complete", "move_rest", "read"]
)
unrisky: st.SearchStrategy[Outcome] = st.sampled_from([Returned("NO_ROUTE"), Refused("full")])
risky: st.SearchStrategy[Outcome] = st.sampled_from([ChannelClosed("406"), Unknown("reset")])


class Engine(RuleBasedStateMachine):
    """Messages fail and are retried; process, database, broker and lease come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.flaky = FlakyDatabase(open_upgraded(sqlite_url(Path(self.folder.name))))
        self.bench = Bench(
            self.flaky, window=WINDOW, marker_timeout=PATIENCE, drain_timeout=PATIENCE
        )
        self.failures: list[Failure] = []
        self.asked: list[CreatedOperation] = []
        self.risks = 0
        """How often a window may have been doubled so far."""

    def teardown(self) -> None:
        bench = self.bench
        bench.crash_at = lambda _point: None
        bench.transport.come_up()
        bench.transport.forget_cues()
        bench.work()
        self.everything_is_done()
        self.flaky.dispose()
        self.folder.cleanup()

    @rule(count=st.integers(1, 5), queue=st.sampled_from([QUEUE, QUEUE, "gone"]))
    def fail(self, count: int, queue: str) -> None:
        failures = [failure(queue=queue) for _ in range(count)]
        self.bench.receive(*failures)
        self.failures += failures

    @precondition(lambda self: self.failures)
    @rule(which=messages, ours=st.sampled_from(["this", "another", "none"]), at=times)
    def fail_again(self, which: int, ours: str, at: Any) -> None:
        first = self.pick(which)
        retry_id = {"this": self.retry_id(first), "another": "another", "none": None}[ours]
        again = failure(
            message_id=first.message_id,
            queue=first.details.queue,
            time_of_failure=at,
            retry_id=retry_id,
        )
        self.bench.receive(again)

    @precondition(lambda self: self.failures)
    @rule(which=messages)
    def redeliver(self, which: int) -> None:
        first = self.pick(which)
        changes = {"redelivered": True, "message_id": first.message_id, "body": first.body}
        self.bench.receive(
            failure(
                raw=first.raw, queue=first.details.queue, headers=dict(first.headers), **changes
            )
        )

    @precondition(lambda self: self.failures)
    @rule(which=messages, at=times)
    def confirm(self, which: int, at: Any) -> None:
        self.bench.confirm(unique_id(self.pick(which)), succeeded_at=at)

    @precondition(lambda self: self.failures)
    @rule(chosen=st.sets(messages, min_size=1, max_size=4))
    def ask(self, chosen: set[int]) -> None:
        self.asked.append(self.bench.ask(list({unique_id(self.pick(each)) for each in chosen})))

    @rule()
    def ask_all(self) -> None:
        self.asked.append(self.bench.ask_all())

    @rule(turns=st.integers(1, 12))
    def turn(self, turns: int) -> None:
        for _ in range(turns):
            pause = self.bench.take_turn()
            self.bench.clock.advance(pause)
            if pause:
                self.bench.end_waits()

    @rule(point=st.sampled_from(list(CrashPoint)), time=st.integers(1, 3))
    def die(self, point: CrashPoint, time: int) -> None:
        self.bench.kill_at(point, time=time)
        try:
            self.turn(12)
        except Killed:
            self.risks += 1
            self.bench.restart()
        self.bench.crash_at = lambda _point: None

    @rule()
    def restart(self) -> None:
        self.bench.stop()
        self.bench.restart()

    @rule(outcome=unrisky)
    def will_not_take_one(self, outcome: Outcome) -> None:
        self.bench.transport.cue(outcome, when=to_queue(QUEUE))

    @rule(outcome=risky, stored=st.booleans(), settled=st.integers(0, 1))
    def breaks_in_a_window(self, outcome: Outcome, stored: bool, settled: int) -> None:  # noqa: FBT001 - a rule's argument
        self.risks += 1
        self.bench.transport.cue(outcome, when=to_queue(QUEUE), stored=stored, settled=settled)

    @rule(outcome=st.one_of(unrisky, risky), stored=st.booleans())
    def breaks_in_staging(self, outcome: Outcome, stored: bool) -> None:  # noqa: FBT001 - a rule's argument
        self.bench.transport.cue(outcome, when=to_queue(STAGING), stored=stored)

    @rule(turns=st.integers(1, 4))
    def goes_down_for_a_while(self, turns: int) -> None:
        self.bench.transport.go_down()
        self.turn(turns)
        self.bench.transport.come_up()

    @precondition(lambda self: STAGING in self.bench.transport.broker.queues)
    @rule(delete=st.booleans())
    def staging_queue_is_emptied(self, delete: bool) -> None:  # noqa: FBT001 - a rule's argument
        broker = self.bench.transport.broker
        if delete:
            broker.delete(STAGING)
        else:
            broker.queues[STAGING].ready.clear()

    @rule(verb=verbs, unheard=st.booleans())
    def database_fails(self, verb: str, unheard: bool) -> None:  # noqa: FBT001 - a rule's argument
        if unheard:
            self.flaky.silence(verb)
        else:
            self.flaky.refuse(verb)

    @rule(turns=st.integers(0, 3))
    def another_processor_comes_and_goes(self, turns: int) -> None:
        self.risks += 1
        other = self.bench.lose_lease()
        self.turn(turns)
        other.release()

    @invariant()
    def one_batch_forwards_and_the_pointer_names_it(self) -> None:
        forwarding = [row["batch_id"] for row in self.batches() if row["status"] == "forwarding"]
        assert forwarding == list(filter(None, [self.bench.pointer()]))

    @invariant()
    def a_claim_is_of_a_message_on_its_way(self) -> None:
        statuses = self.bench.statuses()
        alive = {row["batch_id"]: row["status"] for row in self.batches()}
        for key, claim in self.bench.claims().items():
            if claim["forwarded_at"]:
                assert statuses[key] == "retry_issued"
            else:
                early = alive[claim["batch_id"]] in {"marking", "staging"}
                assert statuses[key] == "retry_issued" or (early and statuses[key] == "unresolved")

    @invariant()
    def a_message_whose_retry_is_issued_has_a_claim(self) -> None:
        issued = {key for key, status in self.bench.statuses().items() if status == "retry_issued"}
        assert issued <= set(self.bench.claims())

    @invariant()
    def what_is_recorded_has_arrived(self) -> None:
        sent = self.sent()
        claims = self.bench.claims().values()
        assert all(sent[claim["retry_id"]] for claim in claims if claim["forwarded_at"])

    @invariant()
    def no_more_is_doubled_than_was_in_doubt(self) -> None:
        doubled = sum(number - 1 for number in self.sent().values())
        assert doubled <= WINDOW * self.risks

    @invariant()
    def no_operation_counts_more_than_its_messages(self) -> None:
        for row in self.bench.rows(select(retry_operations)):
            counted = row["forwarded"] + row["failed"] + row["skipped"]
            assert counted <= row["total"]
            assert row["skipped"] >= 0

    @invariant()
    def no_message_is_lost_or_made_up(self) -> None:
        stored = self.bench.rows(select(failed_messages.c.unique_message_id))
        assert {row["unique_message_id"] for row in stored} == set(map(unique_id, self.failures))

    def everything_is_done(self) -> None:
        assert self.bench.batches() == []
        assert all(claim["forwarded_at"] for claim in self.bench.claims().values())
        for state, total, counted in count_up(self.bench, self.asked):
            assert (state, counted) == ("completed", total)

    def pick(self, which: int) -> Failure:
        return self.failures[which % len(self.failures)]

    def retry_id(self, failed: Failure) -> str | None:
        claim = self.bench.claims().get(unique_id(failed))
        return str(claim["retry_id"]) if claim else None

    def batches(self) -> list[dict[str, Any]]:
        return self.bench.batches()

    def sent(self) -> Counter[str]:
        """Return how often each retry arrived at its queue."""
        codec = self.bench.transport.codec
        arrived = [each for each in self.bench.transport.published if each.queue == QUEUE]
        return Counter(str(codec.read(each.raw).text(headers.RETRY_ID)) for each in arrived)


TestEngine = Engine.TestCase
TestEngine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
