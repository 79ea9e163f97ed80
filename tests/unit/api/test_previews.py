"""POST operations/preview: what it counts, what it warns of, and the plan that a request can name."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.retry_operation import RETRY, Plan, hash_subject
from retrier.domain.selection import Selection
from retrier.http.parts import MissingQueues
from retrier.store.cuts import ISSUED
from retrier.store.engine.database import Database
from retrier.store.schema import failed_messages, metadata, retry_operations
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.factories import failure

CLAIMED = "another retry has claimed it already"
DEAD = "it is dead, and dead messages were not asked for"
UNKNOWN = "12345678-1234-1234-1234-123456789abc"


def look(api: Api, selection: Any, /, **terms: Any) -> Any:
    answer = api.http.post("/api/operations/preview", json={"selection": selection, **terms})
    assert answer.status_code == 200, answer.text
    return answer.json()


def ask(api: Api, selection: Any, /, **terms: Any) -> Any:
    answer = api.http.post("/api/operations", json={"selection": selection, **terms})
    assert answer.status_code == 202, answer.text
    return api.get(f"operations/{answer.json()['operation_id']}")


def lines(breakdown: Any) -> dict[str, int]:
    return {each["name"]: each["count"] for each in breakdown["lines"]}


def dispose(api: Api, unique_id: str, **values: Any) -> None:
    row = failed_messages.c.unique_message_id == unique_id
    with api.db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(row).values(values))


def skipped(found: Any) -> dict[str, int]:
    return {each["reason"]: each["count"] for each in found["skipped"]}


def test_it_counts_what_would_be_retried_in_every_way(api: Api) -> None:
    api.receive(
        *(failure(queue="orders", message_type="A", endpoint="Sales") for _ in range(3)),
        failure(queue="bills", destination="bills.in", message_type="A"),
    )

    found = look(api, {"message_type": "A"})

    assert (found["total"], found["would_retry"], found["skipped"]) == (4, 4, [])
    assert lines(found["queues"]) == {"orders": 3, "bills": 1}
    assert lines(found["destinations"]) == {"orders": 3, "bills.in": 1}
    assert sum(lines(found["groups"]).values()) == 4
    assert lines(found["attempts"]) == {"1": 4}
    assert sum(lines(found["ages"]).values()) == 4
    assert found["warnings"] == []


def test_it_counts_each_message_in_one_group(api: Api) -> None:
    api.receive(failure(exception_type="A"), failure(exception_type="B"))

    groups = look(api, {"all": True})["groups"]

    assert sorted(each["count"] for each in groups["lines"]) == [1, 1]
    assert groups["others"] == 0
    named = {each["id"]: each["name"] for each in groups["lines"]}
    listed = {each["id"]: each["title"] for each in api.get("recoverability/groups")}
    assert named == listed


@pytest.mark.parametrize(
    ("age", "name"),
    [
        (timedelta(minutes=5), "less than an hour"),
        (timedelta(hours=5), "less than a day"),
        (timedelta(days=5), "less than a week"),
        (timedelta(days=20), "less than 30 days"),
        (timedelta(days=50), "30 days or more"),
    ],
)
def test_it_says_how_old_the_failures_are(api: Api, age: timedelta, name: str) -> None:
    now = api.db.read(lambda tx: tx.now)
    api.receive(failure(time_of_failure=now - age))

    assert lines(look(api, {"all": True})["ages"]) == {name: 1}


def test_what_is_beyond_50_lines_is_summed(api: Api) -> None:
    api.receive(*(failure(queue=f"q{number}") for number in range(53)))

    queues = look(api, {"all": True})["queues"]

    assert len(queues["lines"]) == 50
    assert queues["others"] == 3


def test_it_shows_the_first_five(api: Api) -> None:
    ids = api.receive(*(failure() for _ in range(7)))

    samples = look(api, {"all": True})["samples"]

    assert [each["id"] for each in samples] == ids[:5]


class TestWithALimit:
    """The first so many by failure number are taken; what is skipped does not use it up."""

    def test_only_those_are_counted(self, api: Api) -> None:
        api.receive(*(failure(queue="orders") for _ in range(3)), failure(queue="bills"))

        found = look(api, {"all": True}, limit=3)

        assert (found["total"], found["would_retry"]) == (3, 3)
        assert lines(found["queues"]) == {"orders": 3}

    def test_a_claimed_one_does_not_use_it_up(self, database: Database) -> None:
        bench, api = Bench(database), Api(database)
        first, *rest = bench.fail(3)
        claim(bench, first)

        found = look(api, {"all": True}, limit=2)

        assert (found["total"], found["would_retry"]) == (2, 2)
        assert [each["id"] for each in found["samples"]] == rest
        api.http.close()

    def test_it_is_that_of_the_named_ones_that_are_left(self, api: Api) -> None:
        ids = api.receive(failure(), failure(), failure())

        found = look(api, {"ids": [UNKNOWN, *ids]}, limit=2)

        assert (found["total"], found["would_retry"]) == (2, 2)
        assert skipped(found) == {"no failed message has this id": 1}


def claim(bench: Bench, unique_id: str) -> None:
    """Let an operation claim a message; its batch goes no further."""
    bench.ask([unique_id])
    while not bench.claims():
        bench.turn()


def test_what_it_would_skip_is_counted_by_reason(database: Database) -> None:
    bench, api = Bench(database), Api(database)
    issued, dead, claimed, _left = bench.fail(4)
    bench.ask([issued])
    bench.work()
    dispose(api, dead, disposition=Disposition.DEAD)
    bench.ask([claimed])
    while len(bench.claims()) < 2:
        bench.turn()

    found = look(api, {"all": True})

    assert (found["total"], found["would_retry"]) == (2, 1)
    assert skipped(found) == {ISSUED: 1, DEAD: 1, CLAIMED: 1}
    assert ask(api, {"all": True})["total"] == found["total"]
    api.http.close()


def test_dead_ones_that_are_asked_for_are_counted(api: Api) -> None:
    dead, _manual = api.receive(failure(), failure())
    dispose(api, dead, disposition=Disposition.DEAD)

    found = look(api, {"disposition": "dead"})

    assert (found["total"], found["would_retry"], found["skipped"]) == (1, 1, [])


def test_named_ones_that_would_be_skipped_are_told(api: Api) -> None:
    known, archived = api.receive(failure(), failure())
    api.set_status(archived, FailedMessageStatus.ARCHIVED)

    found = look(api, {"ids": [UNKNOWN, known, archived]})

    assert (found["total"], found["would_retry"]) == (3, 1)
    assert found["skipped_messages"] == [
        {"id": UNKNOWN, "reason": "no failed message has this id"},
        {"id": archived, "reason": "it is archived"},
    ]


def test_it_changes_nothing(api: Api) -> None:
    api.receive(failure(), failure())

    def count() -> list[int]:
        with api.db.engine.connect() as conn:
            tables = metadata.sorted_tables
            return [
                conn.execute(select(func.count()).select_from(each)).scalar_one() for each in tables
            ]

    before = count()
    look(api, {"all": True}, limit=1, destination="replay", rate=5, canary=1)

    assert count() == before
    assert api.wakes == 0


class TestARedirect:
    """Retries for one queue go to another."""

    def make(self, api: Api) -> None:
        api.receive(failure(queue="orders"), failure(queue="bills"))
        body = {"fromphysicaladdress": "orders", "tophysicaladdress": "orders2"}
        assert api.http.post("/api/redirects", json=body).status_code == 201

    def test_is_applied_and_told(self, api: Api) -> None:
        self.make(api)

        found = look(api, {"all": True})

        assert lines(found["destinations"]) == {"orders2": 1, "bills": 1}
        assert [each["kind"] for each in found["warnings"]] == ["redirect"]

    def test_is_not_applied_to_a_destination_of_the_operation(self, api: Api) -> None:
        self.make(api)

        found = look(api, {"all": True}, destination="orders")

        assert lines(found["destinations"]) == {"orders": 2}
        assert found["warnings"] == []


def see(api: Api, sight: MissingQueues) -> list[list[str]]:
    """Let the broker answer so; return what it is asked."""
    asked: list[list[str]] = []

    def look_at(queues: Sequence[str]) -> MissingQueues:
        asked.append(list(queues))
        return sight

    api.look_at = look_at
    return asked


def test_a_destination_that_is_missing_is_told(api: Api) -> None:
    api.receive(failure(queue="orders"), failure(queue="orders"), failure(queue="bills"))
    asked = see(api, MissingQueues(missing=frozenset({"bills"})))

    found = look(api, {"all": True})

    assert asked == [["orders", "bills"]]
    assert found["warnings"] == [
        {"kind": "queue_missing", "text": "The queue bills does not exist: retries to it fail."}
    ]


def test_a_broker_that_cannot_be_asked_is_told(api: Api) -> None:
    api.receive(failure())
    see(api, MissingQueues(why_not="connection refused"))

    (warning,) = look(api, {"all": True})["warnings"]

    assert warning["kind"] == "not_looked_at"


def test_a_queue_that_was_not_answered_for_is_told_beside_a_missing_one(api: Api) -> None:
    api.receive(failure(queue="orders"), failure(queue="bills"))
    see(api, MissingQueues(missing=frozenset({"bills"}), unsure={"orders": "nobody knows"}))

    missing, unsure = look(api, {"all": True})["warnings"]

    assert missing["kind"] == "queue_missing"
    assert unsure == {
        "kind": "not_looked_at",
        "text": "It is not known whether the queue orders exists: nobody knows.",
    }


class TestAPlan:
    """What a preview counted, and no more, is sent by the operation that names it."""

    def test_leaves_out_what_failed_since(self, api: Api) -> None:
        api.receive(failure(), failure())
        plan = look(api, {"all": True})["plan"]
        api.receive(failure())

        assert ask(api, {"all": True}, plan=plan)["total"] == 2
        assert ask(api, {"all": True})["total"] == 3

    def test_allows_other_terms(self, api: Api) -> None:
        api.receive(failure(), failure())
        plan = look(api, {"all": True})["plan"]

        assert ask(api, {"all": True}, plan=plan, limit=1, rate=5)["total"] == 1

    @pytest.mark.parametrize("more", [{}, {"limit": 3}])
    def test_takes_no_more_than_a_preview_with_a_limit_has_counted(
        self, api: Api, more: dict[str, int]
    ) -> None:
        api.receive(failure(), failure(), failure())
        plan = look(api, {"all": True}, limit=2)["plan"]

        assert ask(api, {"all": True}, plan=plan, **more)["total"] == 2

    def test_takes_no_other_message_for_one_that_was_archived_since(self, api: Api) -> None:
        bench = Bench(api.db)
        first, second, third = bench.fail(3)
        plan = look(api, {"all": True}, limit=2)["plan"]
        api.http.patch(f"/api/errors/{first}/archive")

        ask(api, {"all": True}, plan=plan)
        bench.work()

        assert bench.sent() == [second]
        assert bench.statuses()[third] == "unresolved"

    def test_of_another_selection_is_refused_with_the_new_preview(self, api: Api) -> None:
        api.receive(failure(queue="orders"), failure(queue="bills"))
        plan = look(api, {"all": True})["plan"]

        body = {"selection": {"queue": "orders"}, "plan": plan}
        answer = api.http.post("/api/operations", json=body)

        assert answer.status_code == 409
        assert answer.json()["preview"]["total"] == 1
        assert api.get("operations") == []

    def test_is_one_of_ids_in_any_order(self, api: Api) -> None:
        first, second = api.receive(failure(), failure())
        plan = look(api, {"ids": [first, second]})["plan"]

        assert ask(api, {"ids": [second, first]}, plan=plan)["total"] == 2

    def test_from_elsewhere_takes_nothing_that_has_no_number_yet(self, api: Api) -> None:
        """It was made before the database was replaced by an older copy, with fewer numbers."""
        api.receive(*(failure() for _ in range(5)))
        digest = hash_subject(RETRY, Selection())
        at = datetime(2026, 5, 4, tzinfo=UTC)
        plan = Plan(subject=digest, counted_to=900, cut_off=900, total=900, at=at).token

        operation = ask(api, {"all": True}, plan=plan)

        assert operation["total"] == 5
        with api.db.engine.connect() as conn:
            assert conn.execute(select(retry_operations.c.cut_off)).scalar_one() == 5
