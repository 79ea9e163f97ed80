"""Breakers between the stages: what opens them, what they hold, and what closes them again."""

from datetime import timedelta

import pytest

from retrier.domain.breakers import BreakerRules, BreakerState, BreakerTerms, Per
from retrier.domain.retry_operation import RetryTerms
from retrier.store.engine.database import Database
from retrier.store.operation_lists import find_operation
from retrier.store.redirects import create_redirect
from tests.support.bench import QUEUE, Killed
from tests.support.breaking import FEW, OTHER, Breakdown
from tests.support.scheduling import schedule

HOUR = timedelta(hours=1)


@pytest.fixture
def bench(database: Database) -> Breakdown:
    return Breakdown(database)


def open_it(bench: Breakdown) -> list[str]:
    """Open the breaker of `orders`; return what has failed there."""
    ids = bench.break_down()
    bench.work()
    assert bench.state() == "open"
    bench.empty(QUEUE)
    return ids


def half_open_it(bench: Breakdown) -> str:
    """Let one message of `orders` try it; return which."""
    open_it(bench)
    bench.ask_all()
    bench.work()
    bench.let_pass()
    bench.work()
    (trial,) = bench.sent()
    assert bench.state() == "half_open"
    return trial


class TestWhatOpensIt:
    def test_messages_that_come_back(self, bench: Breakdown) -> None:
        bench.break_down()
        assert bench.counted() == (4, 0, 4, 0)

        bench.ask_all()
        bench.work()

        assert bench.state() == "open"
        assert (bench.breaker()["failed"], bench.breaker()["sent"]) == (4, 4)

    def test_messages_that_the_broker_returns(self, bench: Breakdown) -> None:
        bench.transport.broker.delete(QUEUE)
        bench.ask(bench.fail(4))

        bench.work()

        assert bench.state() == "open"

    def test_not_a_consumer_that_confirms_nothing_and_fails_1_in_100(
        self, database: Database
    ) -> None:
        rules = BreakerRules(default=BreakerTerms(window=20, least=1))
        bench = Breakdown(database, rules=rules)
        ids = bench.fail(100)
        bench.ask_all()
        bench.work()
        bench.come_back(ids[:1])

        bench.ask_all()
        bench.work()

        assert bench.state() == "closed"

    def test_the_last_outcomes_of_a_consumer_that_confirms(self, database: Database) -> None:
        rules = BreakerRules(default=BreakerTerms(window=4, least=4))
        bench = Breakdown(database, rules=rules)
        ids = bench.fail(20)
        bench.ask_all()
        bench.work()
        bench.confirm_all(ids[:8])
        bench.come_back(ids[8:10])

        bench.work()

        assert bench.state() == "open"
        assert (bench.breaker()["failed"], bench.breaker()["sent"]) == (2, 4)

    def test_not_what_was_sent_before_it_closed(self, bench: Breakdown) -> None:
        # Given messages that are on their way while a person closes the breaker
        ids = bench.fail(4)
        bench.ask(ids)
        bench.work()
        bench.set(QUEUE, BreakerState.CLOSED)

        bench.come_back(ids)
        bench.work()

        assert bench.counted() == (0, 0, 0, 0)
        assert bench.state() == "closed"

    def test_not_one_that_is_counted_by_no_rule(self, database: Database) -> None:
        bench = Breakdown(database, rules=BreakerRules(rules={"payments": FEW}))

        bench.break_down()
        bench.work()

        assert bench.claims_without_breaker() == 0  # they have come back
        assert bench.rows_of_breakers() == 0


class TestWhatItIsFor:
    def test_the_queue_that_a_retry_is_redirected_to(self, bench: Breakdown) -> None:
        create_redirect(bench.db, QUEUE, OTHER, own_queues=frozenset(), who="ada")
        ids = bench.fail(4)
        bench.ask(ids)
        bench.work()
        bench.come_back(ids)
        bench.ask_all()

        bench.work()

        assert bench.state(OTHER) == "open"
        assert bench.sent(OTHER) == ids

    def test_the_destination_of_the_operation(self, bench: Breakdown) -> None:
        bench.break_down(OTHER)
        bench.fail()

        created = bench.ask_all(RetryTerms(destination=OTHER))
        bench.work()

        assert bench.operation(created)["passed_over"]
        assert bench.sent(QUEUE) == []

    def test_a_message_type(self, database: Database) -> None:
        rules = BreakerRules(default=BreakerTerms(per=Per.MESSAGE_TYPE, least=4))
        bench = Breakdown(database, rules=rules)
        bad = bench.break_down(message_type="Shop.Broken")
        (good,) = bench.fail(message_type="Shop.Fine")
        bench.empty(QUEUE)

        bench.ask_all()
        bench.work()

        assert bench.state("message_type:Shop.Broken") == "open"
        assert bench.sent() == [good]
        assert bad


class TestWhileItIsOpen:
    def test_others_go_and_the_operation_says_what_waits(self, bench: Breakdown) -> None:
        open_it(bench)
        others = bench.fail(2, queue=OTHER)

        created = bench.ask_all()
        bench.work()

        assert (bench.sent(), bench.sent(OTHER)) == ([], others)
        row = bench.operation(created)
        assert (row["state"], row["passed_over"], row["left_out"]) == ("forwarding", True, 4)
        assert "`orders` answers nothing since " in row["reason"]
        assert "(4 of 4 failed): its messages wait, others go on" in row["reason"]

    def test_what_a_person_names_goes(self, bench: Breakdown) -> None:
        ids = open_it(bench)

        bench.ask(ids[:2])
        bench.work()

        assert bench.sent() == ids[:2]

    def test_it_stays_open_after_a_restart(self, bench: Breakdown) -> None:
        open_it(bench)

        bench.restart()
        bench.ask_all()
        bench.work()

        assert (bench.state(), bench.sent()) == ("open", [])

    def test_claims_that_were_cut_before_are_released_uncounted(self, bench: Breakdown) -> None:
        # Given a batch that is cut, and a person who opens the breaker before it is staged
        ids = bench.fail(3)
        (other,) = bench.fail(queue=OTHER)
        created = bench.ask_all()
        bench.at("marking.moved", lambda: bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR))

        bench.work()

        assert (bench.sent(), bench.sent(OTHER)) == ([], [other])
        row = bench.operation(created)
        assert (row["left_out"], row["skipped"], row["passed_over"]) == (3, 0, True)
        assert set(bench.claims()) == {other}
        assert bench.statuses()[ids[0]] == "unresolved"

    def test_a_batch_that_is_left_empty_ends(self, bench: Breakdown) -> None:
        bench.fail(3)
        created = bench.ask_all()
        bench.at("marking.moved", lambda: bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR))

        bench.work()

        assert bench.batches() == []
        assert bench.operation(created)["passed_over"]

    def test_what_was_released_is_sent_when_it_closes(self, bench: Breakdown) -> None:
        ids = bench.fail(3)
        created = bench.ask_all()
        bench.at("marking.moved", lambda: bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR))
        bench.work()

        bench.set(QUEUE, BreakerState.CLOSED)
        bench.work()

        assert bench.sent() == ids
        assert bench.operation(created)["state"] == "completed"

    def test_a_batch_in_forwarding_is_finished(self, database: Database) -> None:
        bench = Breakdown(database, window=2)
        ids = bench.fail(6)
        bench.ask_all()
        bench.at("forwarding.stamped", lambda: bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR))

        bench.work()

        assert bench.sent() == ids


class TestTheTrial:
    def test_is_exactly_one_message(self, bench: Breakdown) -> None:
        trial = half_open_it(bench)

        bench.work()

        assert bench.sent() == [trial]

    def test_that_is_confirmed_lets_the_rest_go(self, bench: Breakdown) -> None:
        trial = half_open_it(bench)

        bench.confirm(trial)
        bench.work()

        assert bench.state() == "closed"
        assert len(bench.sent()) == 4

    def test_that_comes_back_opens_it_for_twice_as_long(self, bench: Breakdown) -> None:
        trial = half_open_it(bench)

        bench.come_back([trial])
        bench.work()

        assert bench.state() == "open"
        assert bench.breaker()["cooldown_ms"] == 120_000
        assert bench.sent() == [trial]

    def test_that_does_not_come_back_closes_it(self, bench: Breakdown) -> None:
        half_open_it(bench)
        bench.work()

        bench.let_pass()
        bench.age_trial()
        bench.work()

        assert bench.state() == "closed"
        assert len(bench.sent()) == 4

    def test_that_the_broker_returns_opens_it_again(self, bench: Breakdown) -> None:
        open_it(bench)
        bench.ask_all()
        bench.work()
        bench.transport.broker.delete(QUEUE)

        bench.let_pass()
        bench.work()

        assert bench.state() == "open"
        assert bench.breaker()["cooldown_ms"] == 120_000

    def test_that_is_never_sent_makes_way_for_another(self, bench: Breakdown) -> None:
        # Given that the one that was chosen is resolved by a person before it is staged
        open_it(bench)
        bench.ask_all()
        bench.work()
        bench.let_pass()
        bench.at("marking.moved", bench.archive_all_claimed)

        bench.work()

        assert bench.state() == "half_open"
        assert len(bench.sent()) == 1

    def test_survives_a_kill(self, bench: Breakdown) -> None:
        open_it(bench)
        bench.ask_all()
        bench.work()
        bench.let_pass()
        bench.kill_at("staging.committed")
        with pytest.raises(Killed):
            bench.work()

        bench.restart()
        bench.work()

        assert len(bench.sent()) == 1
        assert bench.state() == "half_open"

    def test_is_looked_for_by_the_operation_that_waits_only_once(self, bench: Breakdown) -> None:
        half_open_it(bench)

        assert bench.turn() is False


class TestByHand:
    def test_one_never_seen_may_be_opened(self, bench: Breakdown) -> None:
        found = bench.set("nowhere", BreakerState.OPEN, lasts=HOUR)

        assert (found.known, bench.breaker("nowhere")["hand"]) == (False, "open")

    def test_it_holds_without_any_rule(self, database: Database) -> None:
        bench = Breakdown(database, rules=BreakerRules())
        bench.fail(2)
        bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR, why="maintenance")

        created = bench.ask_all()
        bench.work()

        assert bench.sent() == []
        assert "`orders` is held by ada until" in bench.operation(created)["reason"]

    def test_it_ends_by_itself(self, database: Database) -> None:
        bench = Breakdown(database, rules=BreakerRules())
        ids = bench.fail(2)
        bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR)
        created = bench.ask_all()
        bench.work()

        bench.restart()
        bench.let_pass()
        bench.work()

        assert bench.sent() == ids
        assert bench.operation(created)["state"] == "completed"

    def test_closed_for_a_time_it_does_not_open(self, bench: Breakdown) -> None:
        ids = bench.break_down()
        bench.set(QUEUE, BreakerState.CLOSED, lasts=HOUR)
        bench.ask(ids)
        bench.work()
        bench.come_back(ids)

        bench.ask_all()
        bench.work()

        assert bench.state() == "closed"

    def test_closing_ends_what_was_opened(self, bench: Breakdown) -> None:
        open_it(bench)
        bench.ask_all()
        bench.work()

        bench.set(QUEUE, BreakerState.CLOSED)
        bench.work()

        assert len(bench.sent()) == 4


class TestWhatIsDueByPolicy:
    TURNS = 30
    """The standing operation looks for what is held again and again: it never ends by itself."""

    def test_waits_while_others_go(self, bench: Breakdown) -> None:
        bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR)
        bench.fail(2)
        others = bench.fail(2, queue=OTHER)
        schedule(bench.db)

        bench.work(self.TURNS)

        assert (bench.sent(), bench.sent(OTHER)) == ([], others)

    def test_is_sent_when_it_closes(self, bench: Breakdown) -> None:
        bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR)
        ids = bench.fail(2)
        schedule(bench.db)
        bench.work(self.TURNS)

        bench.set(QUEUE, BreakerState.CLOSED)
        bench.work(self.TURNS)

        assert bench.sent() == ids

    def test_has_one_that_tries_it(self, bench: Breakdown) -> None:
        open_it(bench)
        schedule(bench.db)
        bench.let_pass()

        bench.work(self.TURNS)

        assert len(bench.sent()) == 1
        assert bench.state() == "half_open"

    def test_is_counted_by_the_breaker_of_its_rule(self, database: Database) -> None:
        bench = Breakdown(database, rules=BreakerRules(rules={"payments": FEW}))
        counted = bench.fail(3)
        schedule(bench.db)
        bench.fail(2)

        bench.ask_all()
        bench.work(self.TURNS)

        assert bench.counted() == (len(counted), 0, 0, 0)
        assert bench.breaker()["rule"] == "payments"


def test_the_operation_says_why_it_waits(bench: Breakdown) -> None:
    open_it(bench)
    created = bench.ask_all()
    bench.work()

    found = find_operation(bench.db, created.operation_id)

    assert found is not None
    assert found.operation.passed_over


def test_one_that_is_not_configured_any_more_closes(bench: Breakdown) -> None:
    open_it(bench)
    bench.ask_all()
    bench.work()

    bench.breaker_rules = BreakerRules()
    bench.work()

    assert bench.state() == "closed"
    assert len(bench.sent()) == 4
