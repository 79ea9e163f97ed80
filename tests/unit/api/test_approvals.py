"""Approval by a second person over the API: asked for, given, refused, and by whom."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.approval import ApprovalRules, ApprovedAct
from retrier.store.engine.database import Database
from tests.support.access import OTHER, OWN, bearer, rules
from tests.support.api import Api
from tests.support.factories import failure

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

ASKER = bearer(AccessRole.OPERATOR)
SECOND = bearer(AccessRole.ADMIN)
NARROW = bearer(AccessRole.OPERATOR, is_narrow=True)


@pytest.fixture
def api(database: Database) -> Iterator[Api]:
    """Give an API by which more than two messages, and all, wait for a second person."""
    approval = ApprovalRules(over=2, acts=frozenset({ApprovedAct.ALL}))
    made = Api(database, rules=rules(), approval=approval)
    yield made
    made.http.close()


def ask(api: Api, count: int = 3, queue: str = OWN, headers: Mapping[str, str] = ASKER) -> str:
    """Let so many messages fail and ask for a retry of their queue; return the operation's id."""
    api.receive(*(failure(queue=queue) for _ in range(count)))
    answer = api.http.post(f"/api/errors/queues/{queue}/retry", headers=headers)
    return str(answer.json()["operation_id"])


def shown(api: Api, operation_id: str) -> Any:
    return api.http.get(f"/api/operations/{operation_id}", headers=SECOND).json()


def decide(
    api: Api, operation_id: str, verdict: str, headers: Mapping[str, str], **body: str
) -> Any:
    return api.http.post(f"/api/operations/{operation_id}/{verdict}", headers=headers, json=body)


def test_a_large_retry_says_that_it_waits_for_approval(api: Api) -> None:
    api.receive(*(failure(queue=OWN) for _ in range(3)))

    answer = api.http.post(f"/api/errors/queues/{OWN}/retry", headers=ASKER).json()

    assert answer["waits_for_approval"] is True
    found = shown(api, answer["operation_id"])
    assert found["state"] == "paused"
    assert found["approval"]["state"] == "asked"
    assert found["approval"]["total"] == 3
    assert found["approval"]["asked_by"] == "token operator-all (testclient)"
    assert found["waits_because"].startswith("it waits for approval by a second person")


def test_a_small_retry_waits_for_nobody(api: Api) -> None:
    found = shown(api, ask(api, count=2))

    assert "approval" not in found
    assert found["state"] == "waiting"


def test_a_retry_of_all_waits_however_few_it_is(api: Api) -> None:
    api.receive(failure())

    answer = api.http.post("/api/errors/retry/all", headers=ASKER).json()

    assert answer["waits_for_approval"] is True


def test_all_with_the_dead_ones_is_all(api: Api) -> None:
    api.receive(failure())
    selection = {"selection": {"disposition": "any"}}

    answer = api.http.post("/api/operations", headers=ASKER, json=selection).json()

    assert answer["waits_for_approval"] is True


def test_all_of_ones_own_queues_is_all(api: Api) -> None:
    api.receive(failure(queue=OWN))

    answer = api.http.post("/api/errors/retry/all", headers=NARROW).json()

    assert answer["waits_for_approval"] is True


def test_another_person_approves_it(api: Api) -> None:
    operation = ask(api)
    seen = shown(api, operation)["approval"]["plan_hash"]
    before = api.wakes

    answer = decide(api, operation, "approve", SECOND, plan_hash=seen)

    assert answer.status_code == 200
    assert answer.json()["state"] == "waiting"
    assert answer.json()["approval"]["decided_by"] == "token admin-all (testclient)"
    assert api.wakes == before + 1


@pytest.mark.parametrize("verdict", ["approve", "refuse"])
def test_who_asked_decides_nothing_whatever_name_they_write(api: Api, verdict: str) -> None:
    operation = ask(api)

    answer = decide(api, operation, verdict, {**ASKER, "X-Retrier-User": "somebody else"})

    assert answer.status_code == 403
    assert "another person must" in answer.json()["detail"]
    assert answer.json()["advice"].startswith("Ask somebody who has the right")
    assert shown(api, operation)["approval"]["state"] == "asked"


@pytest.mark.parametrize("role", [AccessRole.READER, AccessRole.CONTENT])
def test_who_may_not_retry_approves_nothing(api: Api, role: AccessRole) -> None:
    operation = ask(api)

    assert decide(api, operation, "approve", bearer(role)).status_code == 403
    assert shown(api, operation)["approval"]["state"] == "asked"


def test_who_has_no_right_to_its_queues_approves_nothing(api: Api) -> None:
    operation = ask(api, queue=OTHER)

    assert decide(api, operation, "approve", NARROW).status_code == 403


def test_who_has_a_right_to_all_of_its_messages_approves_it(api: Api) -> None:
    operation = ask(api, headers=NARROW)

    answer = decide(api, operation, "approve", bearer(AccessRole.ADMIN, is_narrow=True))

    assert answer.status_code == 200


def test_another_plan_is_refused(api: Api) -> None:
    operation = ask(api)

    answer = decide(api, operation, "approve", SECOND, plan_hash="0" * 64)

    assert answer.status_code == 409
    assert shown(api, operation)["approval"]["state"] == "asked"


def test_another_person_refuses_it(api: Api) -> None:
    operation = ask(api)

    answer = decide(api, operation, "refuse", SECOND).json()

    assert answer["cancel_asked"] is True
    assert answer["reason"] == "its approval was refused by token admin-all (testclient)"


def test_it_is_not_resumed_before(api: Api) -> None:
    operation = ask(api)

    answer = api.http.patch(f"/api/operations/{operation}", headers=SECOND, json={"paused": False})

    assert answer.status_code == 409
    assert "approval" in answer.json()["detail"]


def test_an_id_of_nothing_is_told(api: Api) -> None:
    unknown = "0f0f0f0f-0000-4000-8000-000000000001"

    assert decide(api, unknown, "approve", SECOND).status_code == 404


def test_the_same_request_again_is_the_same_operation_that_waits(api: Api) -> None:
    api.receive(*(failure(queue=OWN) for _ in range(3)))
    keyed = {**ASKER, "Idempotency-Key": "one"}

    first, second = (
        api.http.post(f"/api/errors/queues/{OWN}/retry", headers=keyed).json() for _ in range(2)
    )

    assert first == second


def test_pending_retries_that_are_retried_again_wait_too(api: Api) -> None:
    ids = api.receive(*(failure(queue=OWN) for _ in range(3)))

    answer = api.http.post("/api/pendingretries/retry", headers=ASKER, json=ids).json()

    assert shown(api, answer["operation_id"])["approval"]["state"] == "asked"


def test_without_rules_of_approval_nothing_waits(database: Database) -> None:
    api = Api(database, rules=rules())
    operation = ask(api, count=5)

    assert "approval" not in shown(api, operation)
    assert decide(api, operation, "approve", SECOND).status_code == 409
    api.http.close()


EDITOR = bearer(AccessRole.ADMIN, is_narrow=True)


class TestAnEdit:
    @pytest.fixture
    def api(self, database: Database) -> Iterator[Api]:
        approval = ApprovalRules(acts=frozenset({ApprovedAct.EDIT}))
        made = Api(database, rules=rules(), approval=approval)
        yield made
        made.http.close()

    @pytest.fixture
    def key(self, api: Api) -> str:
        return api.receive(failure(queue=OWN, body=b'{"order": 7}'))[0]

    @pytest.fixture
    def asked(self, api: Api, key: str) -> Any:
        answer = api.http.post(
            f"/api/errors/{key}/edit", headers=EDITOR, json={"body": '{"order": 8}'}
        )
        assert answer.status_code == 202
        return answer.json()

    def test_says_that_it_waits_for_approval(self, api: Api, key: str, asked: Any) -> None:
        (edit,) = api.http.get(f"/api/errors/{key}", headers=SECOND).json()["edits"]

        assert asked["waits_for_approval"] is True
        assert edit["waits_for_approval"] is True
        assert shown(api, asked["operation_id"])["approval"]["total"] == 1

    def test_is_approved_by_another_person_who_may_edit(self, api: Api, asked: Any) -> None:
        answer = decide(api, asked["operation_id"], "approve", SECOND)

        assert (answer.status_code, answer.json()["state"]) == (200, "preparing")

    def test_is_not_approved_by_who_may_not_edit(self, api: Api, asked: Any) -> None:
        answer = decide(api, asked["operation_id"], "approve", ASKER)

        assert answer.status_code == 403
        assert "only who may edit decides" in answer.json()["detail"]

    def test_of_a_message_that_is_archived_meanwhile_is_left_as_it_is(
        self, api: Api, key: str, asked: Any
    ) -> None:
        api.http.patch("/api/errors/archive", headers=SECOND, json=[key])

        answer = decide(api, asked["operation_id"], "approve", SECOND)

        assert answer.status_code == 409
        assert "it is archived" in answer.json()["detail"]
        assert shown(api, asked["operation_id"])["approval"]["state"] == "asked"

    def test_shows_the_body_that_is_to_be_approved(self, api: Api, key: str, asked: Any) -> None:
        path = f"/api/errors/{key}/edits/{asked['edit_id']}/body"

        answer = api.http.get(path, headers=SECOND)

        assert answer.content == b'{"order": 8}'
        assert answer.headers["content-type"] == "application/json"

    def test_shows_no_body_to_who_may_not_read_bodies(self, api: Api, key: str, asked: Any) -> None:
        path = f"/api/errors/{key}/edits/{asked['edit_id']}/body"

        assert api.http.get(path, headers=bearer(AccessRole.READER)).status_code == 403

    @pytest.mark.parametrize("edit_id", ["0f0f0f0f-0000-4000-8000-000000000001", "x"])
    def test_that_nobody_asked_for_has_no_body(self, api: Api, key: str, edit_id: str) -> None:
        answer = api.http.get(f"/api/errors/{key}/edits/{edit_id}/body", headers=SECOND)

        assert answer.status_code == 404

    def test_of_servicecontrol_is_ignored_while_another_waits(
        self, api: Api, key: str, asked: Any
    ) -> None:
        assert asked["waits_for_approval"]
        headers = api.http.get(f"/api/errors/{key}", headers=SECOND).json()
        pairs = headers["processing_attempts"][0]["headers"]
        body = {"message_body": "{}", "message_headers": pairs}

        answer = api.http.post(f"/api/edit/{key}", headers=SECOND, json=body).json()

        assert answer["edit_ignored"] is True
        assert answer["edited_by"] == "token admin-orders (testclient)"
