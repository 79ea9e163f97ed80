"""A policy: it decides when messages are retried by themselves."""

from collections.abc import Sequence
from datetime import timedelta

from retrier.errors import DatabaseUnavailable
from tests.properties.model.account import DUE, LATER
from tests.properties.model.world import World
from tests.support import scheduling

WITHIN: dict[str, timedelta] = {DUE: scheduling.LONG_AGO, LATER: scheduling.LATER}


class Policy:
    """Decides, as the transaction does that stores a failure; and the clock that it goes by."""

    def __init__(self, world: World) -> None:
        self._world = world

    def schedule(self, keys: Sequence[str], when: str) -> bool:
        """Decide about some messages; say whether there was one to decide about."""
        done: list[str] = []
        account = self._world.account

        def follow() -> None:
            done.extend(key for key in dict.fromkeys(keys) if account.schedule(key, when))

        self._world.acting = follow
        try:
            number = scheduling.schedule(self._world.flaky, keys, within=WITHIN[when])
        except DatabaseUnavailable:
            return bool(done)
        if number != len(done):
            self._world.findings.append(f"{number} messages scheduled and not {len(done)}")
        return bool(done)

    def step_clock(self, which: str) -> bool:
        """Let the database's clock be stepped: all times have come, or lie ahead again."""
        scheduling.step_clock(self._world.flaky, WITHIN[which])
        return self._world.account.step_clock(which)
