"""A request that could be read in two ways is refused, and nothing is done."""

import json

import pytest
from fastapi.routing import APIRoute

from retrier.api.application import FOLLOWING, WORKING
from retrier.domain.events import KINDS
from retrier.domain.parameters import names_read_by
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


class TestAMemberThatNobodyReads:
    @pytest.mark.parametrize(
        ("path", "body", "says"),
        [
            ("operations", {"selection": {"queu": "x"}}, "perhaps queue is meant"),
            ("operations/preview", {"selection": {"al": True}}, "perhaps all is meant"),
            ("operations", {"selection": {"all": True}, "limt": 5}, "perhaps limit is meant"),
            (
                "archive_operations",
                {"act": "archive", "selection": {"failed_form": "x"}},
                "perhaps failed_from is meant",
            ),
            (
                "archive_operations",
                {"act": "archive", "selection": {"zzz": "x"}},
                "what is read: all, attempts_at_least,",
            ),
        ],
    )
    def test_is_refused_with_the_nearest_name(
        self, api: Api, path: str, body: object, says: str
    ) -> None:
        answer = api.http.post(f"/api/{path}", json=body)

        assert answer.status_code == 422
        assert says in answer.json()["errors"][0]["reason"]


class TestAMemberThatStandsTwice:
    def test_is_refused_by_every_route_that_reads_a_body(self, api: Api) -> None:
        twice = {"field": "body.a", "reason": "The member a stands twice in one object."}
        content = '[{"a": 1, "a": 2}]'
        for method, path in WITH_A_BODY:
            answer = api.http.request(method, path, content=content, headers=JSON)

            told = (answer.status_code, answer.json().get("errors"))
            assert (path, *told) == (path, 400, [twice])

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


READS = sorted(
    route.path
    for router in (*WORKING, *FOLLOWING)
    for route in router.routes
    if isinstance(route, APIRoute) and "GET" in route.methods
)


class TestAParameterThatNobodyReads:
    def test_is_refused_by_every_list(self, api: Api) -> None:
        for path in READS:
            answer = api.http.get(path, params={"queu": "x"})

            assert (path, answer.status_code) == (path, 400)
            assert answer.json()["errors"][0]["field"] == "query.queu"

    def test_is_answered_with_the_nearest_name(self, api: Api) -> None:
        answer = api.http.get("/api/errors", params={"excpetion_type": "x"})

        assert "perhaps exception_type is meant" in answer.json()["detail"]

    def test_that_is_near_to_none_is_answered_with_those_that_are_read(self, api: Api) -> None:
        answer = api.http.get("/api/streams", params={"colour": "x"})

        assert answer.json()["detail"].endswith("what is read: held, page, per_page, queue.")

    def test_makes_no_act_about_everything(self, api: Api) -> None:
        assert api.http.post("/api/errors/retry/all?queue=x").status_code == 400
        assert api.http.post("/api/imports/retry?queue=x").status_code == 400
        assert api.asked == []

    @pytest.mark.parametrize(
        "query",
        [
            "status=unresolved&page=1&per_page=50&sort=&direction=desc&queueAddress=&modified=",
            "_=1732533323",
            "1732533323",
            "instance_id=x&include_system_messages=false",
            "STATUS=unresolved",
        ],
    )
    def test_is_none_that_clients_of_servicecontrol_send(self, api: Api, query: str) -> None:
        assert api.http.get(f"/api/errors?{query}").status_code == 200

    def test_does_not_belong_to_a_comment_that_is_not_encoded(self, api: Api) -> None:
        path = "/api/recoverability/groups/x/comment?comment=look & see=1"

        assert api.http.post(path).status_code == 404


class TestAConditionThatStandsTwice:
    @pytest.mark.parametrize("query", ["queue=a&queue=b", "queue=a&queue=a", "queue=&Queue=b"])
    def test_is_refused(self, api: Api, query: str) -> None:
        answer = api.http.get(f"/api/errors?{query}")

        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == "query.queue"

    def test_is_refused_under_its_two_names(self, api: Api) -> None:
        assert api.http.get("/api/errors?queue=a&queueaddress=b").status_code == 400
        assert api.http.get("/api/errors?queue=a&queueaddress=a").status_code == 200


LONG = sorted(
    (route.path, name)
    for router in WORKING
    for route in router.routes
    if isinstance(route, APIRoute) and "GET" in route.methods
    for name in names_read_by(route.dependant)
    if name not in {"page", "per_page", "sort", "direction"}
)


class TestATextThatIsTooLong:
    def test_is_refused_with_its_name(self, api: Api) -> None:
        for path, name in LONG:
            answer = api.http.get(path, params={name: "a" * 50_000})

            assert (path, name, answer.status_code) == (path, name, 400)
            assert answer.json()["errors"][0]["field"] == f"query.{name}"

    def test_is_one_longer_than_in_a_selection(self, api: Api) -> None:
        assert api.http.get("/api/errors", params={"text": "a" * 1024}).status_code == 200
        assert api.http.get("/api/errors", params={"text": "a" * 1025}).status_code == 400

    def test_is_counted_in_bytes(self, api: Api) -> None:
        assert api.http.get("/api/errors", params={"text": "é" * 513}).status_code == 400

    def test_is_no_list_of_all_kinds(self, api: Api) -> None:
        kinds = ",".join(KINDS)
        assert len(kinds) > 1024

        assert api.http.get("/api/eventlogitems", params={"kind": kinds}).status_code == 200
