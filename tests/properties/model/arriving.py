"""Rules about messages: they fail, fail again, are redelivered and confirmed, and taken in."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from retrier.domain.headers import STREAM
from tests.properties.model.drawn import INGESTION, queues, streams, whens, which
from tests.properties.model.example import Example
from tests.properties.model.sends import Sent
from tests.properties.model.tally import counted


class Arriving(Example):
    """What consumers and the broker bring, and ingestion takes in."""

    @rule(count=st.integers(1, 4), queue=queues, when=whens)
    @counted
    def fail(self, count: int, queue: str, when: str) -> None:
        for _ in range(count):
            self.far_side.fail(queue, when=when)

    @rule(count=st.integers(2, 4), queue=st.sampled_from(["orders", "billing"]), stream=streams)
    @counted
    def fail_in_a_stream(self, count: int, queue: str, stream: str) -> bool:
        for _ in range(count):
            self.far_side.fail(queue, stream=stream)
        return self.take_in(12)

    @rule(number=which, when=whens)
    @counted
    def fail_anew(self, number: int, when: str) -> bool:
        return self.far_side.fail_anew(number, when=when)

    @rule(number=which, when=whens, retry_id=st.sampled_from(["this", "this", "another", "none"]))
    @counted
    def retry_fails(self, number: int, when: str, retry_id: str) -> bool:
        arrived = self.world.sends.arrived
        if arrived:
            sent = arrived[-1 - number % len(arrived)]
            known = self.world.account.messages.get(sent.key)
            # What names no retry of the message is its failure only where it failed before: what was
            # redirected and says nothing of its retry is another message, as a follow-up would be.
            elsewhere = known is not None and sent.queue not in (known.queue, known.first_queue)
            # An edited version has no stamp of ours: only its retry says whose it is.
            if elsewhere or sent.retry_id in self.world.account.edits:
                retry_id = "this"
            self.far_side.fail_again(sent, when=when, retry_id=retry_id)
        return bool(arrived)

    @rule(number=which)
    @counted
    def retry_loses_its_stream(self, number: int) -> bool:
        known = self.world.account.messages
        of_streams = [each for each in self._under_way() if known[each.key].stream]
        if of_streams:
            sent = of_streams[number % len(of_streams)]
            self.far_side.fail_again(sent, drops=STREAM)
            self.take_in(4)
        return bool(of_streams)

    @rule(count=st.integers(2, 4))
    @counted
    def a_consumer_breaks_down(self, count: int) -> bool:
        """What is sent comes back, and the breaker that opens is to be tried again at once."""
        for _ in range(count):
            self.far_side.fail("orders")
        self.take_in(12)
        self.people.retry_all()
        self.work_until([])
        sent_back = self._under_way()
        for sent in sent_back:
            self.far_side.fail_again(sent)
        self.take_in(12)
        self.people.retry_all()
        self.work_until([])
        self.deed["let breakers pass"](0)
        self.work_until([])
        return bool(sent_back)

    def _under_way(self) -> list[Sent]:
        """Return the retries that arrived and have no outcome yet, each once."""
        known = self.world.account.messages
        claims = {key: each.claim.retry_id for key, each in known.items() if each.claim}
        arrived = self.world.sends.arrived
        return list(
            {
                each.retry_id: each for each in arrived if claims.get(each.key) == each.retry_id
            }.values()
        )

    @rule(number=which, together=st.booleans())
    @counted
    def both_copies_of_a_retry_fail(self, number: int, *, together: bool) -> bool:
        arrived = self.world.sends.arrived
        if arrived:
            sent = arrived[-1 - number % len(arrived)]
            for _ in range(2):
                self.far_side.fail_again(sent, when="now", retry_id="this")
                if not together:
                    self.take_in(4)
        return bool(arrived)

    @rule(number=which)
    @counted
    def redeliver(self, number: int) -> bool:
        return self.far_side.redeliver(number)

    @rule(number=which, when=whens)
    @counted
    def confirm_some_retry(self, number: int, when: str) -> bool:
        arrived = self.world.sends.arrived
        if arrived:
            self.far_side.confirm(arrived[-1 - number % len(arrived)].key, when=when)
        return bool(arrived)

    @rule(number=which, when=whens)
    @counted
    def confirm_any(self, number: int, when: str) -> None:
        self.far_side.confirm(self.deeds.key(number), when=when)

    @rule(number=which)
    @counted
    def confirm_twice(self, number: int) -> bool:
        return self.far_side.confirm_twice(number)

    @rule(number=which)
    @counted
    def copy_is_dead_lettered(self, number: int) -> bool:
        return self.far_side.dead_letter(number)

    @rule(kind=st.sampled_from(["broken", "strange", "lost copy"]))
    @counted
    def nonsense_arrives(self, kind: str) -> None:
        self.far_side.send_nonsense(kind)

    @rule(turns=st.integers(1, 6))
    @counted
    def ingest(self, turns: int) -> bool:
        return self.take_in(turns)

    @rule(moment=st.sampled_from(INGESTION), time=st.integers(1, 2), number=which)
    @counted
    def die_while_ingesting(self, moment: str, time: int, number: int) -> bool:
        self.far_side.fail_anew(number, when="now")
        self.far_side.fail("orders")
        process = self.world.ingestor
        self.world.at(moment, time, lambda: self.deed["die"](0))
        self.take_in(4)
        self.world.moment = None
        return process is not self.world.ingestor
