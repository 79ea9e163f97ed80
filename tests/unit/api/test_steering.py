"""Operations over HTTP while they run: paused, resumed, cancelled, slowed; and what is shown."""

from datetime import timedelta
from typing import Any

import pytest

from retrier.domain.retry_operation import Canary, RetryTerms
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.stretched_waits import stretch_wait

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

NOBODY = "12345678-1234-4234-8234-123456789abc"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def asked(bench: Bench) -> CreatedOperation:
    """Give an operation of three messages."""
    bench.fail(3)
    return bench.ask_all()


def path(created: CreatedOperation) -> str:
    return f"/api/operations/{created.operation_id}"


def change(api: Api, created: CreatedOperation, **body: Any) -> Any:
    return api.http.patch(path(created), json=body)


def cancel(api: Api, created: CreatedOperation) -> Any:
    return api.http.delete(path(created), headers={"X-Retrier-User": "ada"})


def shown(api: Api, created: CreatedOperation) -> Any:
    return api.get(f"operations/{created.operation_id}")


class TestPause:
    def test_answers_with_the_operation(self, api: Api, asked: CreatedOperation) -> None:
        answer = change(api, asked, paused=True)

        assert answer.status_code == 200
        assert answer.json()["state"] == "paused"
        assert answer.json()["waits_because"] == "it is paused"

    def test_may_be_asked_for_twice(self, api: Api, asked: CreatedOperation) -> None:
        change(api, asked, paused=True)

        assert change(api, asked, paused=True).status_code == 200

    def test_is_taken_back(self, api: Api, asked: CreatedOperation) -> None:
        change(api, asked, paused=True)

        assert change(api, asked, paused=False).json()["state"] == "waiting"

    def test_wakes_the_processor(self, api: Api, asked: CreatedOperation) -> None:
        before = api.wakes

        change(api, asked, paused=True)

        assert api.wakes == before + 1

    def test_of_a_completed_one_is_refused(
        self, api: Api, bench: Bench, asked: CreatedOperation
    ) -> None:
        bench.work()

        answer = change(api, asked, paused=True)

        assert answer.status_code == 409
        assert "it is completed" in answer.json()["detail"]
        assert "ask for a new one" in answer.json()["advice"]

    def test_of_an_unknown_one_is_404(self, api: Api) -> None:
        answer = api.http.patch(f"/api/operations/{NOBODY}", json={"paused": True})

        assert answer.status_code == 404


class TestRate:
    def test_is_shown(self, api: Api, asked: CreatedOperation) -> None:
        assert change(api, asked, rate=50).json()["rate"] == 50

    def test_is_lifted_by_null(self, api: Api, asked: CreatedOperation) -> None:
        change(api, asked, rate=50)

        assert "rate" not in change(api, asked, rate=None).json()

    def test_says_when_it_will_be_done(self, api: Api, asked: CreatedOperation) -> None:
        assert "estimated_end" in change(api, asked, rate=1).json()

    def test_and_a_pause_can_be_asked_for_together(self, api: Api, asked: CreatedOperation) -> None:
        answer = change(api, asked, rate=50, paused=True).json()

        assert (answer["rate"], answer["state"]) == (50, "paused")

    @pytest.mark.parametrize("rate", [0, -1, 100_001, 1.5, "50", True])
    def test_out_of_bounds_is_refused_with_its_field(
        self, api: Api, asked: CreatedOperation, rate: object
    ) -> None:
        answer = change(api, asked, rate=rate)

        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"].startswith("body.rate")


@pytest.mark.parametrize("body", [{}, {"paused": None}, {"paused": "yes"}, {"speed": 5}, []])
def test_a_change_of_nothing_that_is_known_is_refused(
    api: Api, asked: CreatedOperation, body: object
) -> None:
    answer = api.http.patch(path(asked), json=body)

    assert answer.status_code == 422
    assert answer.json()["errors"]


class TestCancel:
    def test_is_accepted_and_says_where_to_look(self, api: Api, asked: CreatedOperation) -> None:
        answer = cancel(api, asked)

        assert answer.status_code == 202
        assert answer.headers["Location"] == path(asked)
        assert answer.json()["cancel_asked"] is True
        assert answer.json()["waits_because"].startswith("it was cancelled")

    def test_may_be_asked_for_again(self, api: Api, bench: Bench, asked: CreatedOperation) -> None:
        cancel(api, asked)
        bench.work()

        answer = cancel(api, asked)

        assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")

    def test_of_a_completed_one_is_refused(
        self, api: Api, bench: Bench, asked: CreatedOperation
    ) -> None:
        bench.work()

        assert cancel(api, asked).status_code == 409

    def test_of_an_unknown_one_is_404(self, api: Api) -> None:
        assert api.http.delete("/api/operations/nothing").status_code == 404

    def test_lets_nothing_else_be_changed(self, api: Api, asked: CreatedOperation) -> None:
        cancel(api, asked)

        answer = change(api, asked, paused=True)

        assert answer.status_code == 409
        assert "it was cancelled" in answer.json()["detail"]


def test_every_order_is_in_the_event_log_with_who(
    api: Api, bench: Bench, asked: CreatedOperation
) -> None:
    api.http.headers["X-Retrier-User"] = "ada"
    change(api, asked, paused=True)
    change(api, asked, paused=False)
    change(api, asked, rate=50)
    cancel(api, asked)
    bench.work()

    log = [(each["event_type"], each["who"]) for each in reversed(api.get("eventlogitems"))]
    by_ada = ["OperationPaused", "OperationResumed", "OperationRate", "CancelAsked"]
    assert [kind for kind, _ in log[-5:]] == [*by_ada, "OperationCancelled"]
    assert all(who.startswith("ada ") for _, who in log[-5:-1])


class TestWhatIsShown:
    def test_has_what_was_asked_for(self, api: Api, bench: Bench) -> None:
        bench.fail(3)
        terms = RetryTerms(limit=2, destination="orders.repair", rate=7)

        found = shown(api, bench.ask_all(terms))

        assert (found["limit"], found["destination"], found["rate"]) == (2, "orders.repair", 7)

    def test_has_the_canary_and_what_came_back(self, api: Api, bench: Bench) -> None:
        bench.fail(3, queue="gone")
        terms = RetryTerms(canary=Canary(size=2, wait=timedelta(minutes=2), most_back=1))
        created = bench.ask_all(terms)
        while not bench.take_turn():
            pass

        found = shown(api, created)

        assert found["canary"] == {
            "size": 2,
            "wait": 120.0,
            "limit": 1,
            "state": "waiting",
            "sent": 2,
            "came_back": 2,
        }
        assert found["waits_because"].startswith("its first 2 messages went out, ")

    def test_says_that_it_was_asked_for_later(self, api: Api, bench: Bench) -> None:
        created = bench.ask_all(RetryTerms(delay=timedelta(hours=2)))

        assert shown(api, created)["waits_because"].startswith("it was asked for not before ")

    def test_says_that_its_rate_lets_it_wait(self, api: Api, bench: Bench) -> None:
        bench.fail(3)
        created = bench.ask_all(RetryTerms(rate=1))
        stretch_wait(bench, created)
        while not bench.take_turn():
            pass

        assert shown(api, created)["waits_because"] == "its rate is 1 message a second"

    def test_says_why_its_batch_waits(
        self, api: Api, bench: Bench, asked: CreatedOperation
    ) -> None:
        bench.transport.go_down("connection refused")
        bench.take_turn()
        bench.take_turn()

        assert "connection refused" in shown(api, asked)["waits_because"]

    def test_says_nothing_of_a_wait_while_it_goes(self, api: Api, asked: CreatedOperation) -> None:
        assert "waits_because" not in shown(api, asked)


def test_pending_retries_show_the_destination_of_their_operation(api: Api, bench: Bench) -> None:
    bench.transport.broker.declare("orders.repair")
    bench.fail()
    bench.ask_all(RetryTerms(destination="orders.repair"))
    bench.work()

    (pending,) = api.get("pendingretries")
    assert pending["sent_to"] == "orders.repair"
