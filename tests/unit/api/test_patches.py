"""A patch over HTTP: refused with its place, tried out in a preview, kept with its operation."""

from collections.abc import Iterator
from typing import Any

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.patches import PatchRefusal
from retrier.domain.retry_operation import hash_patch
from retrier.store.engine.database import Database
from retrier.store.patches import MOST_LOOKED_AT, SAMPLES
from tests.support.access import bearer, rules
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.patching import BODY, PATCH

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

EVERYTHING = {"all": True}


def send(api: Api, path: str = "operations", status: int = 202, **body: Any) -> Any:
    answer = api.http.post(f"/api/{path}", json={"selection": EVERYTHING, "patch": PATCH} | body)
    assert answer.status_code == status, answer.text
    return answer.json()


def look(api: Api, **body: Any) -> Any:
    return send(api, "operations/preview", 200, **body)


def fail(count: int = 1, body: bytes = BODY) -> list[Any]:
    return [failure(body=body, headers={"X-Old": "1"}) for _ in range(count)]


class TestARequest:
    def test_keeps_the_patch_with_its_operation(self, api: Api) -> None:
        api.receive(*fail())

        asked = send(api)

        assert api.get(f"operations/{asked['operation_id']}")["patch"] == PATCH

    def test_shows_the_hash_of_the_patch_in_lists(self, api: Api) -> None:
        api.receive(*fail())
        hashed = look(api)["patch"]["hash"]

        send(api)

        (listed,) = [each for each in api.get("operations") if "patch_hash" in each]
        assert listed["patch_hash"] == hashed
        assert "patch" not in listed

    @pytest.mark.parametrize(
        ("patch", "field"),
        [
            ({}, "body.patch"),
            ({"headers": {"set": {"NServiceBus.MessageId": "x"}}}, "body.patch.headers.set"),
            ({"body": [{"op": "remove", "path": "nothing"}]}, "body.patch.body.0.path"),
            ({"body": {"replace": ["(", ""]}}, "body.patch.body.replace.0"),
        ],
    )
    def test_with_a_wrong_patch_is_refused_with_its_place(
        self, api: Api, patch: Any, field: str
    ) -> None:
        refused = send(api, status=400, patch=patch)

        assert field in str(refused)

    def test_that_drops_what_its_patch_sets_is_refused(self, api: Api) -> None:
        send(api, status=400, drop_headers=["x-reg*"])

    def test_under_the_key_of_one_with_another_patch_is_refused(self, api: Api) -> None:
        key = {"Idempotency-Key": "k"}
        other = {"headers": {"remove": ["X-Old"]}}
        answers = [
            api.http.post(
                "/api/operations", json={"selection": EVERYTHING, "patch": each}, headers=key
            ).status_code
            for each in (PATCH, PATCH, other)
        ]

        assert answers[:2] == [202, 202]
        assert answers[2] in (409, 422)


class TestAPreview:
    def test_says_how_many_the_patch_changes(self, api: Api) -> None:
        api.receive(*fail(3))

        found = look(api)["patch"]

        assert (found["would_change"], found["would_not"], found["is_all"]) == (3, [], True)

    def test_counts_by_reason_what_it_cannot_be_applied_to(self, api: Api) -> None:
        api.receive(*fail(3), *fail(2, b"plain"), *fail(1, b'{"total": 1}'))

        found = look(api)["patch"]

        assert (found["looked_at"], found["would_change"]) == (6, 3)
        assert found["would_not"] == [
            {"reason": str(PatchRefusal.NO_JSON), "count": 2},
            {
                "reason": "operation 1 of the patch (replace /order) finds nothing there",
                "count": 1,
            },
        ]

    def test_shows_some_before_and_after(self, api: Api) -> None:
        keys = api.receive(*fail(SAMPLES + 2))

        samples = look(api)["patch"]["samples"]

        assert [each["id"] for each in samples] == keys[:SAMPLES]
        assert samples[0]["body_before"] == BODY.decode()
        assert samples[0]["body_after"] == '{"order":8,"total":1.10}'
        assert samples[0]["headers"] == [
            {"key": "X-Old", "before": "1"},
            {"key": "X-Region", "after": "eu"},
        ]

    def test_looks_at_named_messages(self, api: Api) -> None:
        keys = api.receive(*fail(2))

        found = look(api, selection={"ids": [keys[1]]})["patch"]

        assert [each["id"] for each in found["samples"]] == [keys[1]]

    def test_looks_at_so_many_as_the_limit_leaves(self, api: Api) -> None:
        api.receive(*fail(3))

        assert look(api, limit=2)["patch"]["looked_at"] == 2

    def test_changes_nothing(self, api: Api) -> None:
        api.receive(*fail())

        look(api)

        assert api.wakes == 0

    def test_without_a_patch_has_no_word_of_one(self, api: Api) -> None:
        answer = api.http.post("/api/operations/preview", json={"selection": EVERYTHING})

        assert "patch" not in answer.json()

    def test_has_a_plan_that_covers_the_patch(self, api: Api) -> None:
        api.receive(*fail())
        plan = look(api)["plan"]

        send(api, status=409, plan=plan, patch={"headers": {"remove": ["X-Old"]}})
        send(api, plan=plan)

    def test_has_a_plan_that_is_none_of_a_request_without_a_patch(self, api: Api) -> None:
        api.receive(*fail())
        plan = look(api)["plan"]

        answer = api.http.post("/api/operations", json={"selection": EVERYTHING, "plan": plan})

        assert answer.status_code == 409


def test_a_preview_says_that_it_has_not_looked_at_all(api: Api) -> None:
    for _ in range(MOST_LOOKED_AT // 1000):
        api.receive(*fail(1000))
    api.receive(*fail(1))

    found = look(api)["patch"]

    assert (found["looked_at"], found["is_all"]) == (MOST_LOOKED_AT, False)


class TestWhoMay:
    @pytest.fixture
    def guarded(self, database: Database) -> Iterator[Api]:
        made = Api(database, rules=rules())
        yield made
        made.http.close()

    def post(self, api: Api, role: AccessRole, path: str, **body: Any) -> Any:
        json = {"selection": EVERYTHING, **body}
        return api.http.post(f"/api/{path}", json=json, headers=bearer(role))

    @pytest.mark.parametrize("path", ["operations", "operations/preview"])
    def test_retry_must_also_be_allowed_to_edit(self, guarded: Api, path: str) -> None:
        answers = [
            self.post(guarded, role, path, **more).status_code
            for role, more in (
                (AccessRole.OPERATOR, {"patch": PATCH}),
                (AccessRole.OPERATOR, {}),
                (AccessRole.ADMIN, {"patch": PATCH}),
            )
        ]

        assert [each < 300 for each in answers] == [False, True, True]
        assert answers[0] == 403

    def test_read_bodies_sees_the_patch_of_an_operation(self, guarded: Api) -> None:
        asked = self.post(guarded, AccessRole.ADMIN, "operations", patch=PATCH).json()
        path = f"/api/operations/{asked['operation_id']}"

        seen = {
            role: guarded.http.get(path, headers=bearer(role)).json()
            for role in (AccessRole.READER, AccessRole.CONTENT)
        }

        assert "patch" not in seen[AccessRole.READER]
        assert seen[AccessRole.CONTENT]["patch"] == PATCH
        assert seen[AccessRole.READER]["patch_hash"] == seen[AccessRole.CONTENT]["patch_hash"]


def test_the_hash_is_that_of_what_is_kept(api: Api) -> None:
    asked = send(api, patch={"headers": {"set": {"a": "b"}}})

    shown = api.get(f"operations/{asked['operation_id']}")
    assert shown["patch_hash"] == hash_patch('{"headers":{"set":{"a":"b"}}}')
