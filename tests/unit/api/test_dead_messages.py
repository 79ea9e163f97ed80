"""Dead messages over HTTP: revived, declared dead, and left out of retries that did not mean them."""

from typing import Any

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import NO_DEAD
from tests.support.api import Api
from tests.support.disposing import WHY, make_dead, schedule
from tests.support.factories import failure

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

UNKNOWN = "00000000-0000-0000-0000-000000000000"


def fail_dead(api: Api, dead: int, manual: int = 0) -> tuple[list[str], list[str]]:
    """Let messages fail, of which the first ones are dead; return both kinds."""
    ids = api.receive(*(failure(queue="orders") for _ in range(dead + manual)))
    make_dead(api.db, *ids[:dead])
    return ids[:dead], ids[dead:]


def post(api: Api, path: str, body: Any = None, status: int = 202, **headers: str) -> Any:
    answer = api.http.post(f"/api/{path}", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def group_id(api: Api) -> str:
    return str(api.get("recoverability/groups")[0]["id"])


class TestRevive:
    def test_is_an_operation_of_its_own(self, api: Api) -> None:
        ((key,), _) = fail_dead(api, 1)

        asked = post(api, f"errors/{key}/revive")

        shown = api.get(f"operations/{asked['operation_id']}")
        assert shown["retry_type"] == "singleMessage"
        assert (asked["total"], shown["originator"]) == (1, f"revive of message {key}")
        assert (api.wakes, api.asked) == (1, [1])

    def test_of_what_is_not_dead_is_refused_with_the_reason(self, api: Api) -> None:
        (key,) = api.receive(failure())

        refused = post(api, f"errors/{key}/revive", status=409)

        assert "it is not dead" in refused["detail"]
        assert api.get("operations") == []

    def test_of_what_nobody_knows_is_404(self, api: Api) -> None:
        post(api, f"errors/{UNKNOWN}/revive", status=404)

    def test_twice_under_one_key_is_one_operation(self, api: Api) -> None:
        ((key,), _) = fail_dead(api, 1)
        monday = {"Idempotency-Key": "monday"}

        first = post(api, f"errors/{key}/revive", **monday)
        again = post(api, f"errors/{key}/revive", **monday)

        assert first == again
        assert len(api.get("operations")) == 1

    def test_under_the_key_of_a_retry_is_refused(self, api: Api) -> None:
        ((key,), _) = fail_dead(api, 1)
        monday = {"Idempotency-Key": "monday"}
        post(api, f"errors/{key}/retry", **monday)

        post(api, f"errors/{key}/revive", status=422, **monday)


class TestDeclaringDead:
    def test_answers_with_the_message(self, api: Api) -> None:
        (key,) = api.receive(failure())

        shown = post(api, f"errors/{key}/dead", {"why": "closed"}, 200, **{"X-Retrier-User": "ada"})

        assert (shown["status"], shown["disposition"]) == ("unresolved", "dead")
        assert shown["disposition_reason"].startswith("declared dead by ada (")
        assert shown["disposition_reason"].endswith("): closed")

    @pytest.mark.parametrize(
        "body", [{}, {"why": ""}, {"why": "x" * 501}, {"why": None}, {"why": 1}, {"reason": "x"}]
    )
    def test_needs_a_reason(self, api: Api, body: Any) -> None:
        (key,) = api.receive(failure())

        post(api, f"errors/{key}/dead", body, 422)

        assert api.get(f"errors/{key}")["disposition"] == "manual"

    @pytest.mark.parametrize("word", ["poison_message", "PoisonMessage", "7"])
    def test_may_give_it_a_reason(self, api: Api, word: str) -> None:
        (key,) = api.receive(failure(exception_type="TimeoutError"))

        post(api, f"errors/{key}/dead", {"why": "closed", "reason": word}, 200)

        assert api.get(f"errors/{key}")["reason"] == "poison_message"
        assert api.ids(reason="poison_message") == [key]

    def test_names_the_nearest_of_a_reason_that_there_is_not(self, api: Api) -> None:
        (key,) = api.receive(failure())

        refused = post(api, f"errors/{key}/dead", {"why": "closed", "reason": "posion"}, 422)

        assert "perhaps poison_message is meant" in str(refused)
        assert api.get(f"errors/{key}")["disposition"] == "manual"

    def test_takes_a_reason_of_500_characters(self, api: Api) -> None:
        (key,) = api.receive(failure())

        post(api, f"errors/{key}/dead", {"why": "ü" * 500}, 200)

        history = api.get(f"errors/{key}/events")
        assert f"{key}: dead: {'ü' * 500}" in [line["text"] for line in history]

    def test_of_what_is_settled_is_refused_with_the_reason(self, api: Api) -> None:
        (key,) = api.receive(failure())
        api.set_status(key, FailedMessageStatus.ARCHIVED)

        refused = post(api, f"errors/{key}/dead", {"why": "closed"}, 409)

        assert "it is archived already" in refused["detail"]

    def test_of_what_nobody_knows_is_404(self, api: Api) -> None:
        post(api, f"errors/{UNKNOWN}/dead", {"why": "closed"}, 404)


class TestABulkRetry:
    def test_leaves_dead_messages_out_and_says_how_many(self, api: Api) -> None:
        fail_dead(api, 10, 90)

        asked = post(api, f"recoverability/groups/{group_id(api)}/errors/retry")

        assert (asked["total"], asked["dead_left_out"]) == (90, 10)
        assert api.get(f"operations/{asked['operation_id']}")["dead_left_out"] == 10

    def test_takes_them_all_with_any(self, api: Api) -> None:
        fail_dead(api, 10, 90)

        asked = post(
            api, "operations", {"selection": {"group": group_id(api), "disposition": "any"}}
        )

        assert asked["total"] == 100
        assert "dead_left_out" not in asked

    def test_counts_only_those_that_match(self, api: Api) -> None:
        fail_dead(api, 2, 1)
        (other,) = api.receive(failure(queue="bills"))
        make_dead(api.db, other)

        asked = post(api, "errors/queues/orders/retry")

        assert (asked["total"], asked["dead_left_out"]) == (1, 2)

    def test_says_so_with_a_limit_too(self, api: Api) -> None:
        fail_dead(api, 2, 3)

        asked = post(api, "operations", {"selection": {"all": True}, "limit": 1})

        assert (asked["total"], asked["dead_left_out"]) == (1, 2)

    def test_says_so_again_under_the_same_key(self, api: Api) -> None:
        fail_dead(api, 2, 1)
        monday = {"Idempotency-Key": "monday"}
        first = post(api, "operations", {"selection": {"all": True}}, **monday)

        assert post(api, "operations", {"selection": {"all": True}}, **monday) == first
        assert first["dead_left_out"] == 2

    def test_by_name_leaves_none_out(self, api: Api) -> None:
        dead, manual = fail_dead(api, 1, 1)

        asked = post(api, "errors/retry", [*dead, *manual])

        assert asked == {"operation_id": asked["operation_id"], "total": 2}

    def test_is_previewed_with_what_it_leaves_out(self, api: Api) -> None:
        fail_dead(api, 2, 1)

        found = post(api, "operations/preview", {"selection": {"all": True}}, 200)

        assert (found["would_retry"], found["dead_left_out"]) == (1, 2)


class TestSeen:
    def test_in_lists_by_disposition(self, api: Api) -> None:
        dead, manual = fail_dead(api, 1, 2)
        schedule(api.db, manual[0])

        assert api.ids(disposition="dead") == dead
        assert api.ids(disposition="scheduled") == manual[:1]
        assert api.ids(disposition="manual") == manual[1:]
        assert len(api.ids(disposition="any")) == 3

    @pytest.mark.parametrize("disposition", ["", "dead", "any"])
    def test_in_lists_by_a_status_that_is_none(self, api: Api, disposition: str) -> None:
        dead, _ = fail_dead(api, 1, 1)

        assert api.ids(status="Dead", disposition=disposition) == dead

    @pytest.mark.parametrize(
        "query",
        [
            {"status": "dead,archived"},
            {"status": "unresolved,dead"},
            {"status": "-dead"},
            {"status": "dead", "disposition": "scheduled"},
        ],
    )
    def test_not_beside_another_status_or_disposition(
        self, api: Api, query: dict[str, str]
    ) -> None:
        answer = api.http.get("/api/errors", params=query)

        assert (answer.status_code, answer.json()["detail"]) == (400, NO_DEAD)

    def test_on_the_message_with_all_that_was_decided(self, api: Api) -> None:
        (key,) = api.receive(failure())
        schedule(api.db, key, reason="timeout_exceeded", failure_count=3)

        shown = api.get(f"errors/{key}")

        assert (shown["disposition"], shown["retry_at"]) == (
            "scheduled",
            "2030-01-02T03:04:05.000000Z",
        )
        assert (shown["reason"], shown["failure_count"]) == ("timeout_exceeded", 3)
        assert shown["policy"] == "payments@5a1d"

    def test_by_what_it_is_classified_under_or_the_word_of_its_headers(self, api: Api) -> None:
        timed_out = failure(exception_type="TimeoutError")
        by_class, by_word, _ = api.receive(timed_out, failure(failure_reason="rejected"), failure())

        assert api.ids(reason="timeout_exceeded") == [by_class]
        assert api.ids(reason="rejected") == [by_word]

    def test_in_groups_apart(self, api: Api) -> None:
        _, manual = fail_dead(api, 3, 3)
        schedule(api.db, manual[0])

        (group,) = api.get("recoverability/groups")

        assert (group["count"], group["dead"], group["scheduled"]) == (6, 3, 1)
        (one,) = [api.get(f"recoverability/groups/id/{group['id']}")]
        assert (one["count"], one["dead"], one["scheduled"]) == (6, 3, 1)

    def test_in_the_summary(self, api: Api) -> None:
        _, manual = fail_dead(api, 3, 3)
        schedule(api.db, manual[0])

        counted = api.get("errors/summary")["Dispositions"]

        assert counted == {"manual": 2, "scheduled": 1, "dead": 3}

    def test_in_its_history(self, api: Api) -> None:
        (key,) = api.receive(failure())
        post(api, f"errors/{key}/dead", {"why": "closed"}, 200)

        told = [line["kind"] for line in api.get(f"errors/{key}/events")]

        assert "message_declared_dead" in told


def test_the_reason_of_a_dead_message_is_in_lists(api: Api) -> None:
    fail_dead(api, 1)

    (item,) = api.get("errors")

    assert item["disposition_reason"] == WHY
