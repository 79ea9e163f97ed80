"""Rules about people: retries, message actions and redirects."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import Order
from tests.properties.model.drawn import acts, orders, queues, several, which
from tests.properties.model.example import Example
from tests.properties.model.tally import counted
from tests.support.streams import look_now


class RequestContext(Example):
    """What people ask for."""

    @rule(numbers=several)
    @counted
    def retry_ids(self, numbers: list[int]) -> bool:
        return self.people.retry_ids([self.deeds.key(each) for each in numbers])

    @rule()
    @counted
    def retry_all(self) -> bool:
        return self.people.retry_all()

    @rule()
    @counted
    def retry_dead_ones_too(self) -> bool:
        return self.people.retry_all(dead=True)

    @rule(number=which)
    @counted
    def declare_dead(self, number: int) -> bool:
        return self.people.declare_dead(self.deeds.key(number))

    @rule(number=which)
    @counted
    def revive(self, number: int) -> bool:
        return self.people.revive(self.deeds.key(number))

    @rule(number=which)
    @counted
    def edit(self, number: int) -> bool:
        account = self.world.account
        # Of most messages it would be refused: that is what the deed of this name often meets.
        keys = [key for key, _ in account.all() if not account.why_not("edit", key)]
        return self.people.edit(keys[number % len(keys)] if keys else self.deeds.key(number))

    @rule(numbers=several)
    @counted
    def retry_patched(self, numbers: list[int]) -> bool:
        return self.people.retry_patched([self.deeds.key(each) for each in numbers])

    @rule(queue=queues)
    @counted
    def retry_queue(self, queue: str) -> bool:
        return self.people.retry_all(queue)

    @rule(number=which)
    @counted
    def retry_group(self, number: int) -> bool:
        return self.people.retry_group(number)

    @rule(numbers=several)
    @counted
    def retry_pending(self, numbers: list[int]) -> bool:
        return self.people.retry_again([self.deeds.key(each) for each in numbers])

    @rule(queue=queues)
    @counted
    def retry_pending_of_queue(self, queue: str) -> bool:
        return self.people.retry_again((), queue)

    @rule(queue=queues)
    @counted
    def resolve_pending_of_queue(self, queue: str) -> bool:
        return self.people.resolve_pending(queue)

    @rule(act=acts, numbers=several)
    @counted
    def act(self, act: Act, numbers: list[int]) -> bool:
        return self.people.act(act, [self.deeds.key(each) for each in numbers])

    @rule(act=acts, number=which)
    @counted
    def act_on_group(self, act: Act, number: int) -> bool:
        return self.people.act_on_group(act, number)

    @rule(act=acts, number=which)
    @counted
    def act_on_many(self, act: Act, number: int) -> bool:
        return self.people.act_on_many(act, number)

    @rule(number=which)
    @counted
    def undo(self, number: int) -> bool:
        return self.people.undo(number)

    @rule()
    @counted
    def work_off_a_chunk(self) -> bool:
        return self.world.many.work(self.world.bench)

    @rule(number=which)
    @counted
    def release_a_stream(self, number: int) -> bool:
        return self.people.release(number)

    @rule()
    @counted
    def streams_are_looked_at_again(self) -> None:
        look_now(self.world.bench)

    @rule(number=which)
    @counted
    def redirect(self, number: int) -> bool:
        return self.deeds.redirect(number)

    @rule(number=which, order=orders)
    @counted
    def steer(self, number: int, order: Order) -> bool:
        return self.people.steer(number, order)

    @rule(limit=st.integers(1, 3))
    @counted
    def retry_some(self, limit: int) -> bool:
        return self.people.retry_all(limit=limit)

    @rule(number=which)
    @counted
    def delete_old(self, number: int) -> bool:
        return self.people.delete_old(number)
