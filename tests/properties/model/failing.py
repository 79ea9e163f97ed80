"""Rules about the processor and everything around it that fails."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from retrier.domain.wire import Outcome
from tests.properties.model.drawn import (
    BETWEEN,
    MOMENTS,
    SENDING,
    VERBS,
    arrived_all_the_same,
    deeds,
    risky,
    unrisky,
    which,
)
from tests.properties.model.example import Example
from tests.properties.model.sends import STAGING
from tests.properties.model.tally import counted
from tests.properties.model.world import BETWEEN_LOOK_AND_CLAIMS, OF_OTHERS
from tests.support.script import to_queue

SPOILS = ["purge staging", "delete staging", "double copies", "strange copies"]


class Failing(Example):
    """The processor works; process, connections, lease, broker and database come and go."""

    @rule(turns=st.sampled_from([1, 1, 2, 3, 5, 8]))
    @counted
    def turn(self, turns: int) -> None:
        for _ in range(turns):
            self.world.turn()

    @rule(moment=st.sampled_from(MOMENTS), time=st.integers(1, 2), deed=deeds, number=which)
    @counted
    def meanwhile(self, moment: str, time: int, deed: str, number: int) -> bool:
        return self.during(moment, time, deed, number)

    @rule(moment=st.sampled_from(SENDING), time=st.integers(1, 3), deed=deeds, number=which)
    @counted
    def while_sending(self, moment: str, time: int, deed: str, number: int) -> bool:
        return self.during(moment, time, deed, number)

    @precondition(lambda self: self.database.sql.marks_at_once)
    @rule(deed=st.sampled_from(BETWEEN), number=which, asked=st.sampled_from(["all", "by name"]))
    @counted
    def between_look_and_claims(self, deed: str, number: int, asked: str) -> bool:
        self.far_side.fail("orders")
        self.take_in(4)
        if asked == "by name":
            self.people.retry_ids(list(self.world.account.messages))
        return self.during(BETWEEN_LOOK_AND_CLAIMS, 1, deed, number)

    @rule(moment=st.sampled_from([*MOMENTS, *SENDING]), time=st.integers(1, 2))
    @counted
    def die(self, moment: str, time: int) -> bool:
        return self.during(moment, time, "die", 0)

    @rule()
    @counted
    def stop_in_good_order(self) -> None:
        self.world.stop_in_good_order()

    @rule(number=which, hears=st.sampled_from(["lose lease", "lose lease and hear of it"]))
    @counted
    def lose_lease(self, number: int, hears: str) -> None:
        self.deed[hears](number)

    @rule()
    @counted
    def zombie_wakes(self) -> bool:
        return self.world.wake_zombie()

    @rule(outcome=unrisky, queue=st.sampled_from(["orders", "billing", STAGING]))
    @counted
    def will_not_take_one(self, outcome: Outcome, queue: str) -> None:
        self.world.transport.cue(outcome, when=to_queue(queue))

    @rule(outcome=risky, stored=arrived_all_the_same, settled=st.integers(0, 1))
    @counted
    def breaks_in_a_window(self, outcome: Outcome, stored: str, settled: int) -> None:
        self.world.transport.cue(
            outcome, when=to_queue("orders"), stored=bool(stored), settled=settled
        )

    @rule(outcome=risky, stored=arrived_all_the_same)
    @counted
    def breaks_in_staging(self, outcome: Outcome, stored: str) -> None:
        self.world.transport.cue(outcome, when=to_queue(STAGING), stored=bool(stored))

    @rule(turns=st.integers(1, 4))
    @counted
    def broker_goes_down_for_a_while(self, turns: int) -> None:
        self.world.transport.go_down()
        for _ in range(turns):
            self.world.turn()
            self.world.ingest()
        self.world.transport.come_up()

    @rule(turns=st.integers(1, 4))
    @counted
    def foreign_copies_come(self, turns: int) -> bool:
        self.deeds.foreign_copies()
        for _ in range(turns):
            self.world.turn()
        return self.deeds.take_foreign_copies_away()

    @rule(number=which, deed=st.sampled_from(SPOILS))
    @counted
    def spoil_staging(self, number: int, deed: str) -> bool:
        return self.deed[deed](number)

    @rule(verb=st.sampled_from(VERBS), unheard=st.sampled_from(["unheard", "refused"]))
    @counted
    def database_fails(self, verb: str, unheard: str) -> None:
        if unheard == "unheard" or verb in OF_OTHERS[1:]:
            self.world.flaky.silence(verb)
        else:
            self.world.flaky.refuse(verb)
