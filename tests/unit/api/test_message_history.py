"""GET /api/errors/{id}/attempts and /events: all that happened to one message, in order."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import insert, update

from retrier.domain.failed_message import Failure
from retrier.store.schema import archive_operations, failed_messages
from tests.contract.store_rows import again
from tests.support.api import Api
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import failure, unique_id
from tests.support.scheduling import schedule

NOBODY = "b0f4cb64-9b3e-4a4b-9a11-0d1b6a3d2f6e"
ACT = "ac700000-0000-4000-8000-000000000001"


class Tale:
    """One message, and what becomes of it; it arrives when it does by the database's clock."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.bench = Bench(api.db)
        self.first = self.fail()
        self.key = unique_id(self.first)

    def fail(self, **changes: Any) -> Failure:
        """Let the message fail, for the first time or again."""
        now = self.api.db.read(lambda tx: tx.now)
        known = getattr(self, "first", None)
        made = failure(queue=QUEUE, received_at=now, **changes)
        if known is not None:
            made = again(known, queue=QUEUE, received_at=now, **changes)
        self.bench.receive(made)
        return made

    def retry(self) -> str | None:
        """Ask for its retry, and let the processor send it; return the retry id."""
        headers = {"X-Retrier-User": "ada"}
        self.api.http.post(f"/api/errors/{self.key}/retry", headers=headers)
        self.bench.work()
        return self.bench.retry_id(self.key)

    def events(self, **params: Any) -> list[dict[str, Any]]:
        """Return what is told of it."""
        return list(self.api.get(f"errors/{self.key}/events", **params))

    def kinds(self, **params: Any) -> list[str]:
        """Return the kinds of what is told of it."""
        return [str(each["kind"]) for each in self.events(**params)]


@pytest.fixture
def tale(api: Api) -> Iterator[Tale]:
    """Give a message that has failed."""
    return Tale(api)


def test_the_history_tells_failure_retry_return_failure_and_confirmation_in_order(
    tale: Tale,
) -> None:
    tale.bench.transport.broker.delete(QUEUE)
    tale.retry()
    tale.bench.transport.broker.declare(QUEUE)
    tale.fail(retry_id=tale.retry())
    tale.retry()
    tale.bench.confirm(tale.key)

    assert tale.kinds() == [
        "failed",
        *("retry_asked", "sending", "retry_returned"),
        *("retry_asked", "sending", "sent", "failed"),
        *("retry_asked", "sending", "sent", "confirmed"),
    ]


def test_the_times_of_a_history_ascend(tale: Tale) -> None:
    tale.fail(retry_id=tale.retry())

    times = [each["at"] for each in tale.events()]

    assert times == sorted(times)


def test_a_history_says_who_asked_for_the_retry(tale: Tale) -> None:
    tale.retry()

    asked = next(each for each in tale.events() if each["kind"] == "retry_asked")

    assert asked["who"] == "ada (testclient)"
    assert asked["operation_id"] == tale.api.ids("operations")[0]


def test_what_a_policy_retries_was_asked_for_by_nobody(tale: Tale) -> None:
    schedule(tale.api.db, [tale.key])
    tale.bench.work()

    assert tale.kinds() == ["failed", "sending", "sent"]


def test_a_failure_is_told_with_its_reason(tale: Tale) -> None:
    (failed,) = tale.events()

    assert failed["text"] == "It failed on orders: Shop.OutOfStock: nothing left"


def test_a_message_that_came_back_says_in_the_words_of_the_broker_why(tale: Tale) -> None:
    tale.bench.transport.broker.delete(QUEUE)
    tale.retry()

    returned = tale.events()[-1]

    assert returned["kind"] == "retry_returned"
    assert "unresolved again" in returned["text"]


def test_the_claim_in_force_is_told(tale: Tale) -> None:
    tale.bench.ask([tale.key])
    tale.bench.kill_at("staging.committed")
    with pytest.raises(Killed):
        tale.bench.work()

    assert tale.kinds() == ["failed", "retry_asked", "claimed"]


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("PATCH", "errors/archive", "message_archived"),
        ("PATCH", "pendingretries/resolve", "message_resolved"),
    ],
)
def test_what_a_person_did_is_told_once(tale: Tale, method: str, path: str, kind: str) -> None:
    body: Any = [tale.key] if "archive" in path else {"uniquemessageids": [tale.key]}
    if "resolve" in path:
        tale.retry()

    tale.api.http.request(method, f"/api/{path}", json=body, headers={"X-Retrier-User": "ada"})

    assert [each["who"] for each in tale.events() if each["kind"] == kind] == ["ada (testclient)"]
    assert "resolved" not in tale.kinds()


def test_an_act_on_many_that_archived_it_is_told(tale: Tale) -> None:
    now = tale.api.db.read(lambda tx: tx.now)
    act = {
        "operation_id": ACT,
        "act": "archive",
        "selection": {"all": True},
        "cut_off": 1,
        "cursor": 1,
        "skipped_because": {},
        "originator": "all",
        "requested_by": "ada",
        "state": "completed",
        "total": 1,
        "done": 1,
        "skipped": 0,
        "created_at": now,
        "completed_at": now,
        "modified_at": now,
    }
    archived = {"status": "archived", "archive_operation_id": ACT, "last_modified": now}
    with tale.api.db.engine.begin() as conn:
        conn.execute(insert(archive_operations).values(act))
        conn.execute(update(failed_messages).values(archived))

    told = tale.events()[-1]

    assert (told["kind"], told["who"], told["operation_id"]) == ("archived", "ada", ACT)


def test_a_confirmation_without_a_retry_is_told(tale: Tale) -> None:
    tale.bench.confirm(tale.key, received_at=tale.api.db.read(lambda tx: tx.now))

    assert tale.kinds() == ["failed", "confirmed"]


def test_a_history_is_told_in_pages_from_either_end(tale: Tale) -> None:
    tale.fail(retry_id=tale.retry())
    every = tale.kinds()

    answer = tale.api.http.get(f"/api/errors/{tale.key}/events", params={"per_page": 2, "page": 2})

    assert answer.headers["Total-Count"] == str(len(every)) == "5"
    assert [each["kind"] for each in answer.json()] == every[2:4]
    assert tale.kinds(direction="desc") == every[::-1]


def test_every_failure_is_listed_with_what_was_known_of_it(tale: Tale) -> None:
    retry = tale.retry()
    tale.fail(retry_id=retry, redelivered=True, exception_type="Shop.TooLate")

    first, second = tale.api.get(f"errors/{tale.key}/attempts")

    assert (first["failure_details"]["exception"]["exception_type"], first["redelivered"]) == (
        "Shop.OutOfStock",
        False,
    )
    assert (second["failure_details"]["exception"]["exception_type"], second["redelivered"]) == (
        "Shop.TooLate",
        True,
    )
    assert (second["retry_id"], second["error_queue"], second["is_current"]) == (
        retry,
        "error",
        True,
    )


def test_more_failures_than_a_message_shows_are_listed_in_pages(tale: Tale) -> None:
    for number in range(60):
        tale.fail(exception_message=f"number {number}")

    answer = tale.api.http.get(
        f"/api/errors/{tale.key}/attempts", params={"per_page": 10, "page": 7}
    )

    assert answer.headers["Total-Count"] == "61"
    (last,) = answer.json()
    assert last["failure_details"]["exception"]["message"] == "number 59"


def test_the_newest_failure_comes_first_if_asked_for(tale: Tale) -> None:
    tale.fail(exception_message="second")

    newest, _ = tale.api.get(f"errors/{tale.key}/attempts", direction="desc")

    assert newest["failure_details"]["exception"]["message"] == "second"


@pytest.mark.parametrize("key", [NOBODY, "nonsense"])
@pytest.mark.parametrize("path", ["attempts", "events"])
def test_a_message_that_nobody_knows_has_no_history(api: Api, key: str, path: str) -> None:
    assert api.http.get(f"/api/errors/{key}/{path}").status_code == 404


def test_who_asked_for_a_retry_is_not_who_confirmed_it(tale: Tale) -> None:
    tale.bench.transport.broker.declare(QUEUE)
    tale.retry()
    tale.bench.confirm(tale.key)

    told = {each["kind"]: each.get("who") for each in tale.events()}

    assert told["retry_asked"].startswith("ada (")
    assert told["confirmed"] is None
    assert told["sent"] is None
