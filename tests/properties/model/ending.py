"""The end of each example: the world becomes healthy, and everything has to come to its end."""

from collections.abc import Iterator

from sqlalchemy import select

from retrier.domain.breakers import BreakerRules, BreakerState
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.store.figures import read_ledger
from retrier.store.schema import retry_operations
from tests.properties.model.account import DUE, UNRESOLVED
from tests.properties.model.deeds import Deeds
from tests.properties.model.far_side import FarSide
from tests.properties.model.people import People
from tests.properties.model.sends import STAGING
from tests.properties.model.world import World
from tests.support.streams import look_now

MOST_TURNS = 150
TURNS_OF_AN_OPERATION = 20
"""An operation of a few messages takes half as many: cut, staged, forwarded, closed, cut in vain."""


class Ending:
    """Heals the world, lets all work be done, and looks what is left."""

    def __init__(self, world: World, deeds: Deeds, people: People, far_side: FarSide) -> None:
        self._world = world
        self._deeds = deeds
        self._people = people
        self._far_side = far_side

    def findings(self) -> Iterator[str]:
        """Yield what did not come to its end."""
        world = self._world
        self._heal()
        yield from self._work()
        yield from world.many.finish(world.bench)
        # What was scheduled when it was archived is scheduled again once it is taken back.
        yield from self._work()
        yield from self._left()
        yield from self._operations()
        yield from self._ledger()
        yield from self._one_last_retry()
        yield from world.findings

    def _heal(self) -> None:
        world = self._world
        world.moment = None
        world.flaky.heal()
        world.transport.come_up()
        world.transport.forget_cues()
        world.transport.waits = 1
        self._deeds.take_foreign_copies_away()
        self._people.resume_all()
        # What is not configured any more closes; and nobody holds it by hand.
        world.bench.breaker_rules = BreakerRules()
        self._people.set_breaker(BreakerState.CLOSED)

    def _work(self) -> Iterator[str]:
        world = self._world
        turns = 0
        while world.ingest() and turns < MOST_TURNS:
            turns += 1
        if turns >= MOST_TURNS:
            yield "ingestion never ends"
        self._people.release_all()
        look_now(world.bench)
        most = MOST_TURNS + TURNS_OF_AN_OPERATION * len(world.bench.rows(select(retry_operations)))
        if world.bench.work(most) >= most:
            yield f"the processor never ends: {world.bench.processor.reason}"
        world.check()

    def _left(self) -> Iterator[str]:
        bench = self._world.bench
        if bench.batches() or bench.pointer():
            yield f"batches are left: {bench.batches()}"
        for key, message in self._world.account.all():
            if message.claim and not message.claim.recorded:
                yield f"the claim of {key} is left"
            if message.scheduled == DUE:
                yield f"{key} is due and was not sent"

    def _operations(self) -> Iterator[str]:
        for row in self._world.bench.rows(select(retry_operations)):
            counted = row["forwarded"] + row["failed"] + row["skipped"]
            requests = self._world.requests
            if row["operation_id"] == STANDING_OPERATION:
                if row["state"] != "waiting" or counted != row["total"]:
                    yield f"the standing operation is {row['state']}, {dict(row)}"
                continue
            over = "cancelled" if row["operation_id"] in requests.cancelled else "completed"
            if row["state"] != over or counted != row["total"]:
                yield f"operation {row['operation_id']} is {row['state']}, {dict(row)}"
            if row["operation_id"] not in self._world.requests.made:
                yield f"operation {row['operation_id']}: nobody asked for it"

    def _ledger(self) -> Iterator[str]:
        world = self._world
        ledger = read_ledger(world.flaky)
        for name, number in world.account.counted.items():
            if ledger.entry(name) != number:
                yield f"the ledger has {ledger.entry(name)} {name}, it should be {number}"
        # What was handed out again after a crash is taken off once more; less would be a loss.
        if ledger.entry("taken_off") < self._far_side.put:
            yield f"{self._far_side.put} put, {ledger.entry('taken_off')} taken off"
        attempts = sum(message.attempts for _, message in world.account.all())
        attempts += world.account.deleted_attempts
        if attempts != ledger.entry("new") + ledger.entry("repeated"):
            yield f"{attempts} attempts are not what the ledger has"

    def _one_last_retry(self) -> Iterator[str]:
        """In a healthy world whatever is unresolved goes out, once, and staging is empty then."""
        world = self._world
        there = {"orders", "billing"}
        due = [
            key
            for key, message in world.account.all()
            if message.status == UNRESOLVED and message.queue in there
        ]
        before = len(world.sends.arrived)
        for source in ("orders", "billing", "gone"):
            self._people.delete_redirect(source)
        self._people.release_all()
        self._people.retry_all(dead=True)
        yield from self._work()
        arrived = sorted(sent.key for sent in world.sends.arrived[before:])
        if arrived != sorted(due):
            yield f"the last retry sent {arrived} and not {sorted(due)}"
        left = world.transport.broker.holds(STAGING) if due else []
        if left:
            yield f"{len(left)} messages are left in the staging queue"
