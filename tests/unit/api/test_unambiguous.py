"""A request that could be read in two ways is refused, and nothing is done."""

import json

import pytest
from fastapi.routing import APIRoute

from retrier.api.routes import WORKING
from tests.support.api import Api

JSON = {"Content-Type": "application/json"}
WITH_A_BODY = sorted(
    {
        (method, route.path)
        for router in WORKING
        for route in router.routes
        if isinstance(route, APIRoute) and route.body_field is not None
        for method in route.methods
    }
)


class TestAMemberThatStandsTwice:
    @pytest.mark.parametrize(("method", "path"), WITH_A_BODY)
    def test_is_refused_by_every_route_that_reads_a_body(
        self, api: Api, method: str, path: str
    ) -> None:
        answer = api.http.request(method, path, content='[{"a": 1, "a": 2}]', headers=JSON)

        assert answer.status_code == 400
        assert answer.json()["errors"] == [
            {"field": "body.a", "reason": "The member a stands twice in one object."}
        ]

    def test_does_not_make_a_selection_everything(self, api: Api) -> None:
        body = '{"selection": {"queue": "x"}, "selection": {"all": true}}'

        answer = api.http.post("/api/operations/preview", content=body, headers=JSON)

        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == "body.selection"

    def test_is_found_however_deep_it_stands(self, api: Api) -> None:
        body = '{"selection": {"queue": "x", "queue": "y"}}'

        answer = api.http.post("/api/operations", content=body, headers=JSON)

        assert answer.status_code == 400

    def test_is_found_in_a_long_body(self, api: Api) -> None:
        ids = json.dumps(["x"] * 50_000)
        body = f'{{"selection": {{"ids": {ids}}}, "why": "a", "why": "b"}}'

        answer = api.http.post("/api/operations", content=body, headers=JSON)

        assert answer.status_code == 400

    def test_is_refused_under_a_key_that_was_used_for_the_last_one(self, api: Api) -> None:
        headers = JSON | {"Idempotency-Key": "one"}
        api.http.post("/api/operations", content='{"selection": {"all": true}}', headers=headers)
        body = '{"selection": {"queue": "x"}, "selection": {"all": true}}'

        answer = api.http.post("/api/operations", content=body, headers=headers)

        assert answer.status_code == 400

    def test_may_have_any_name(self, api: Api) -> None:
        answer = api.http.post(
            "/api/operations", content=r'{"\ud800": 1, "\ud800": 2}', headers=JSON
        )

        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == r"body.\ud800"

    def test_is_no_member_of_two_objects(self, api: Api) -> None:
        body = '{"selection": {"queue": "x"}, "queue": "x"}'

        answer = api.http.post("/api/operations", content=body, headers=JSON)

        assert answer.status_code == 422
