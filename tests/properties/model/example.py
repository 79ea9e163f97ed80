"""One example: its own database and world, and whoever acts in it."""

from hypothesis.stateful import RuleBasedStateMachine

from tests.properties.model.databases import Databases
from tests.properties.model.deeds import Deeds
from tests.properties.model.far_side import FarSide
from tests.properties.model.people import People
from tests.properties.model.policy import Policy
from tests.properties.model.tally import EXAMPLES, note
from tests.properties.model.world import World

MOST_TURNS = 12


class Example(RuleBasedStateMachine):
    """Everything that the rules act upon."""

    def __init__(self, databases: Databases) -> None:
        super().__init__()
        EXAMPLES["begun"] += 1
        self.database = databases.open()
        self.world = World(self.database)
        self.far_side = FarSide(self.world)
        self.people = People(self.world)
        self.policy = Policy(self.world)
        self.deeds = Deeds(self.world, self.people, self.far_side)
        self.deed = self.deeds.by_name()

    def take_in(self, turns: int) -> bool:
        """Ingest so often, or until nothing is left; say whether anything was taken off."""
        before = self.world.account.counted["taken_off"]
        left = 1
        while turns and left:
            left, turns = self.world.ingest(), turns - 1
        return self.world.account.counted["taken_off"] > before

    def during(self, moment: str, time: int, deed: str, number: int) -> bool:
        """Work until the moment comes, at which the deed is done; say whether it came."""
        happened: list[str] = []

        def act() -> None:
            happened.append(deed)
            if self.deed[deed](number):
                note(f"  meanwhile: {deed}")

        self.world.at(moment, time, act)
        if not self.work_until(happened):
            # Nothing was left to do before the moment came: let there be something.
            self.people.retry_all()
            self.work_until(happened)
        self.world.moment = None
        return bool(happened)

    def work_until(self, happened: list[str]) -> bool:
        """Take turns until something happened, the processor rests, or it takes too long."""
        rests = 0
        for _ in range(MOST_TURNS):
            if happened or rests > 1:
                break
            rests = 0 if self.world.turn() else rests + 1
        return bool(happened)
