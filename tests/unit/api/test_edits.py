"""Edits over HTTP: our own routes, and those of ServiceControl."""

from base64 import b64encode
from typing import Any

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.disposing import make_dead
from tests.support.factories import failure

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

UNKNOWN = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def key(api: Api) -> str:
    return api.receive(failure(body=b'{"order": 7}'))[0]


def post(api: Api, path: str, body: Any, status: int = 202, **headers: str) -> Any:
    answer = api.http.post(f"/api/{path}", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def of_servicecontrol(api: Api, key: str, **changes: Any) -> dict[str, Any]:
    """Return what ServicePulse sends: the whole body, and all headers."""
    (newest,) = api.get(f"errors/{key}")["processing_attempts"]
    pairs = [{"key": name, "value": value} for name, value in newest["headers"].items()]
    return {"message_body": '{"order": 8}', "message_headers": pairs} | changes


class TestOurRoute:
    def test_shows_what_can_be_changed(self, api: Api, key: str) -> None:
        found = api.get(f"errors/{key}/edit")

        assert found["body"] == '{"order": 7}'
        assert {"key": "Shop.Tenant", "value": "north", "fixed": False} in found["headers"]

    def test_takes_an_edit(self, api: Api, key: str) -> None:
        asked = post(api, f"errors/{key}/edit", {"body": '{"order": 8}', "why": "wrong order"})

        (shown,) = api.get(f"errors/{key}")["edits"]
        assert (shown["edit_id"], shown["state"]) == (asked["edit_id"], "waiting")
        assert (shown["why"], shown["body_changed"]) == ("wrong order", True)
        assert api.wakes == 1

    def test_shows_which_headers_differ(self, api: Api, key: str) -> None:
        post(api, f"errors/{key}/edit", {"headers": {"set": {"Shop.Tenant": "south"}}})

        (shown,) = api.get(f"errors/{key}")["edits"]
        changed = {each["key"]: each for each in shown["headers"]}
        assert changed["Shop.Tenant"] == {"key": "Shop.Tenant", "before": "north", "after": "south"}

    def test_makes_an_operation_of_it(self, api: Api, key: str) -> None:
        asked = post(api, f"errors/{key}/edit", {"body": "{}"})

        found = api.get(f"operations/{asked['operation_id']}")
        assert (found["retry_type"], found["total"]) == ("edit", 1)

    def test_takes_a_body_as_bytes(self, api: Api, key: str) -> None:
        given = b64encode(b'{"order": 9}').decode()

        post(api, f"errors/{key}/edit", {"body_base64": given})

    @pytest.mark.parametrize("given", ["?", "a", "ü"])
    def test_refuses_what_is_no_base64(self, api: Api, key: str, given: str) -> None:
        post(api, f"errors/{key}/edit", {"body_base64": given}, 400)

    def test_refuses_a_body_that_is_given_twice(self, api: Api, key: str) -> None:
        post(api, f"errors/{key}/edit", {"body": "{}", "body_base64": ""}, 400)

    def test_refuses_a_broken_body_and_says_where(self, api: Api, key: str) -> None:
        refused = post(api, f"errors/{key}/edit", {"body": "{"}, 400)

        assert (refused["reason"], "line 1" in refused["detail"]) == ("broken", True)

    def test_takes_a_broken_body_after_a_second_word(self, api: Api, key: str) -> None:
        post(api, f"errors/{key}/edit", {"body": "{", "send_broken": True})

    def test_refuses_a_locked_header(self, api: Api, key: str) -> None:
        body = {"headers": {"set": {"NServiceBus.SagaId": "7"}}}

        assert "SagaId" in post(api, f"errors/{key}/edit", body, 400)["detail"]

    def test_refuses_what_does_not_fit_into_a_frame(self, api: Api, key: str) -> None:
        body = {"headers": {"set": {"Shop.New": "x" * 200_000}}}

        refused = post(api, f"errors/{key}/edit", body, 400)

        assert (refused["reason"], "one frame holds" in refused["detail"]) == ("does_not_fit", True)

    def test_refuses_an_edit_without_changes(self, api: Api, key: str) -> None:
        assert post(api, f"errors/{key}/edit", {}, 400)["reason"] == "nothing"

    def test_of_what_nobody_knows_is_404(self, api: Api) -> None:
        post(api, f"errors/{UNKNOWN}/edit", {"body": "{}"}, 404)
        assert api.http.get(f"/api/errors/{UNKNOWN}/edit").status_code == 404

    @pytest.mark.parametrize(
        "status",
        [each for each in FailedMessageStatus if each is not FailedMessageStatus.UNRESOLVED],
    )
    def test_of_what_is_not_unresolved_is_409(
        self, api: Api, key: str, status: FailedMessageStatus
    ) -> None:
        api.set_status(key, status)

        post(api, f"errors/{key}/edit", {"body": "{}"}, 409)

    def test_of_a_dead_message_needs_a_second_word(self, api: Api, key: str) -> None:
        make_dead(api.db, key)

        assert "dead" in post(api, f"errors/{key}/edit", {"body": "{}"}, 409)["detail"]
        post(api, f"errors/{key}/edit", {"body": "{}", "send_dead": True})

    def test_of_another_failure_than_the_one_looked_at_is_409(self, api: Api, key: str) -> None:
        body = {"body": "{}", "attempt_id": 4711}

        assert "failed again" in post(api, f"errors/{key}/edit", body, 409)["detail"]

    def test_twice_says_who_was_faster(self, api: Api, key: str) -> None:
        post(api, f"errors/{key}/edit", {"body": "{}"}, **{"X-Retrier-User": "ada"})

        refused = post(api, f"errors/{key}/edit", {"body": "[]"}, 409)

        assert "edited by ada" in refused["detail"]

    def test_twice_by_the_same_person_says_so(self, api: Api, key: str) -> None:
        ada = {"X-Retrier-User": "ada"}
        post(api, f"errors/{key}/edit", {"body": "{}"}, **ada)

        refused = post(api, f"errors/{key}/edit", {"body": "[]"}, 409, **ada)

        assert "that is you" in refused["detail"]

    def test_twice_under_one_key_is_one_edit(self, api: Api, key: str) -> None:
        asked = [
            post(api, f"errors/{key}/edit", {"body": "{}"}, **{"Idempotency-Key": "monday"})
            for _ in range(2)
        ]

        assert asked[0] == asked[1]
        assert len(api.get(f"errors/{key}")["edits"]) == 1

    def test_of_another_kind_under_one_key_is_refused(self, api: Api, key: str) -> None:
        monday = {"Idempotency-Key": "monday"}
        post(api, f"errors/{key}/edit", {"body": "{}"}, **monday)

        post(api, f"errors/{key}/edit", {"body": "[]"}, 422, **monday)


class TestServiceControlsRoute:
    def test_says_that_messages_can_be_edited(self, api: Api) -> None:
        found = api.get("edit/config")

        assert (found["enabled"], len(found["locked_headers"])) == (True, 23)

    def test_takes_an_edit(self, api: Api, key: str) -> None:
        assert post(api, f"edit/{key}", of_servicecontrol(api, key)) == {"edit_ignored": False}

    def test_takes_headers_as_an_object(self, api: Api, key: str) -> None:
        body = of_servicecontrol(api, key, message_headers={"Shop.Tenant": "north"})

        post(api, f"edit/{key}", body)

        (shown,) = api.get(f"errors/{key}")["edits"]
        assert {"key": "traceparent", "before": shown["headers"][-1]["before"]} in shown["headers"]

    def test_ignores_the_second_one_and_says_who_was_faster(self, api: Api, key: str) -> None:
        post(api, f"edit/{key}", of_servicecontrol(api, key), **{"X-Retrier-User": "ada"})

        found = post(api, f"edit/{key}", of_servicecontrol(api, key), 200)

        assert found["edit_ignored"] is True
        assert found["edited_by"] == "ada (testclient)"

    def test_refuses_a_locked_header_that_is_changed(self, api: Api) -> None:
        (key,) = api.receive(failure(headers={"NServiceBus.SagaId": "7"}))
        body = of_servicecontrol(api, key)
        pairs = [each for each in body["message_headers"] if each["key"] != "NServiceBus.SagaId"]

        post(api, f"edit/{key}", body | {"message_headers": pairs}, 400)

    @pytest.mark.parametrize("missing", [{"message_body": ""}, {"message_headers": None}])
    def test_refuses_an_edit_without_body_or_headers(
        self, api: Api, key: str, missing: dict[str, Any]
    ) -> None:
        post(api, f"edit/{key}", of_servicecontrol(api, key) | missing, 400)

    def test_of_what_nobody_knows_is_400(self, api: Api) -> None:
        post(api, f"edit/{UNKNOWN}", {"message_body": "x", "message_headers": []}, 400)


class TestTheLog:
    def test_has_the_reason_that_servicepulse_does_not_show(self, api: Api, key: str) -> None:
        post(api, f"edit/{key}", of_servicecontrol(api, key, message_body="{"), 400)

        assert [told.path for told in api.refused] == [f"/api/edit/{key}"]
        assert "the body cannot be read any more" in api.refused[0].reason

    def test_has_nothing_refused_of_an_edit_that_is_taken(self, api: Api, key: str) -> None:
        post(api, f"edit/{key}", of_servicecontrol(api, key))

        assert api.refused == []

    def test_has_nothing_refused_of_what_is_only_looked_at(self, api: Api) -> None:
        assert api.http.get(f"/api/errors/{UNKNOWN}/edit").status_code == 404

        assert api.refused == []
