"""The state machine: all rules together, and what must hold after each of them."""

from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from retrier.store.verification import verify_store
from tests.properties.model.arriving import Arriving
from tests.properties.model.asking import RequestContext
from tests.properties.model.databases import Databases
from tests.properties.model.deciding import Deciding
from tests.properties.model.ending import Ending
from tests.properties.model.failing import Failing


class Model(Arriving, RequestContext, Deciding, Failing):
    """Messages fail and are retried; people, process, database, broker and lease come and go."""

    @initialize(count=st.integers(1, 5))
    def some_fail(self, count: int) -> None:
        for _ in range(count):
            self.far_side.fail("orders")
        self.take_in(12)

    @invariant()
    def the_account_agrees(self) -> None:
        self.world.check()
        fail_with(self.world.findings)

    @invariant()
    def the_store_verifies(self) -> None:
        if not self.world.changed:
            return
        self.world.changed = False
        fail_with([each for each in verify_store(self.database).rules if each.broken])

    def teardown(self) -> None:
        ending = Ending(self.world, self.deeds, self.people, self.far_side)
        try:
            fail_with(ending.findings())
        finally:
            self.world.close()


def model_on(databases: Databases) -> type[Model]:
    """Return the model that takes the database of each example from these."""

    class Opened(Model):
        def __init__(self) -> None:
            super().__init__(databases)

    return Opened


def fail_with(findings: Iterable[object]) -> None:
    """Fail the example, telling what was found: the long form runs without pytest."""
    told = list(map(str, findings))
    assert not told, "\n".join(told)
