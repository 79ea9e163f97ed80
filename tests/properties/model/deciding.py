"""Rules about a policy: what it schedules, when that is due, and how it is held up."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from retrier.domain.retry_operation import STANDING_OPERATION, Cancel, Order, Pause, Resume
from tests.properties.model.account import DUE, LATER
from tests.properties.model.drawn import MOMENTS, several, which
from tests.properties.model.example import Example
from tests.properties.model.tally import counted

times = st.sampled_from([DUE, DUE, LATER])
policy_orders: st.SearchStrategy[Order] = st.sampled_from([Pause(), Resume(), Cancel()])


class Deciding(Example):
    """What is due by policy: scheduled, due, paused, bounded."""

    @rule(numbers=several, when=times)
    @counted
    def schedule(self, numbers: list[int], when: str) -> bool:
        return self.policy.schedule([self.deeds.key(each) for each in numbers], when)

    @rule(moment=st.sampled_from(MOMENTS), time=st.integers(1, 2), number=which)
    @counted
    def die_while_something_is_due(self, moment: str, time: int, number: int) -> bool:
        self.policy.schedule([self.deeds.key(number)], DUE)
        return self.during(moment, time, "die", 0)

    @rule(which=times)
    @counted
    def step_clock(self, which: str) -> bool:
        return self.policy.step_clock(which)

    @rule(order=policy_orders)
    @counted
    def steer_the_standing_operation(self, order: Order) -> bool:
        return self.people.steer_one(STANDING_OPERATION, order)

    @rule(per_second=st.sampled_from([None, 1, 10]))
    @counted
    def change_the_policies_rate(self, per_second: int | None) -> None:
        self.world.bench.per_second = per_second
