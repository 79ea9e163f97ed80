"""Times that come in: one way to read them on every route, and bounds that both databases know."""

from urllib.parse import quote

import pytest
from httpx import Response

from tests.support.api import Api
from tests.support.factories import failure

NOW = "2026-05-04T00:00:00Z"
BEYOND = [
    "0001-01-01T00:00:00+23:59",
    "0001-01-01T00:00:00.000001+00:01",
    "9999-12-31T23:59:59-00:01",
    "9999-12-31T23:59:59.999999-23:59",
]
NONE = ["monday", "0", "1714564800", "NaN", "2026-13-01", "10000-01-01T00:00:00Z", "\u0662"]
WITH_NUL = "2026-05-04T00:00:00Z\0"
EDGES = [
    ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    ("0001-01-01T23:59:00+23:59", "9999-12-31T00:00:59.999999-23:59"),
    ("0001-01-01", "9999-12-31"),
    ("1969-07-20T20:17:40z", "2026-05-04t00:00:00.0000000Z"),
]
ADDRESSES = {
    "errors": "GET errors?modified={}...{}",
    "endpoint": "GET endpoints/a/errors?modified={}...{}",
    "group": "GET recoverability/groups/id/a?modified={}...{}",
    "errors of group": "GET recoverability/groups/a/errors?modified={}...{}",
    "unarchive": "PATCH errors/{}...{}/unarchive",
}
BODIES = ["POST queues/retry", "PATCH queues/resolve", "PATCH resolve"]


def ask_address(api: Api, route: str, first: str, last: str) -> Response:
    method, _, path = ADDRESSES[route].partition(" ")
    return api.http.request(method, f"/api/{path.format(quote(first), quote(last))}")


def ask_body(api: Api, route: str, first: object, last: object) -> Response:
    method, path = route.split()
    of_queue = {"queueaddress": "a"} if path.startswith("queues/") else {}
    body = {**of_queue, "from": first, "to": last}
    return api.http.request(method, f"/api/pendingretries/{path}", json=body)


@pytest.mark.parametrize("route", ADDRESSES)
def test_a_time_of_an_address_that_is_none_is_refused_by_its_field(api: Api, route: str) -> None:
    wrong_times = [*BEYOND, *NONE]
    for times in [*((time, NOW) for time in wrong_times), *((NOW, time) for time in wrong_times)]:
        answer = ask_address(api, route, *times)

        assert (times, answer.status_code) == (times, 400)
        (wrong,) = answer.json()["errors"]
        assert wrong["field"] in {"query.modified", "path.first", "path.last"}


@pytest.mark.parametrize("route", BODIES)
def test_a_time_of_a_body_with_a_nul_behind_it_is_none(api: Api, route: str) -> None:
    assert ask_body(api, route, WITH_NUL, NOW).status_code == 422


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize("time", BEYOND)
def test_a_time_of_a_body_that_is_out_of_bounds_is_refused_by_its_field(
    api: Api, route: str, time: str
) -> None:
    answers = [ask_body(api, route, time, NOW), ask_body(api, route, NOW, time)]

    assert [answer.status_code for answer in answers] == [400, 400]
    fields = [each["field"] for answer in answers for each in answer.json()["errors"]]
    assert fields == ["body.from", "body.to"]


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize(
    "time", ["", *NONE, 0, 1714564800, -1e308, 10**400, True, [], {}], ids=repr
)
def test_what_is_no_time_is_a_body_of_the_wrong_shape(api: Api, route: str, time: object) -> None:
    answer = ask_body(api, route, NOW, time)

    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["body.to"]


@pytest.mark.parametrize("edges", EDGES, ids=str)
def test_both_databases_take_all_that_lies_between(api: Api, edges: tuple[str, str]) -> None:
    api.receive(failure())

    addresses = {route: ask_address(api, route, *edges).status_code for route in ADDRESSES}
    bodies = {route: ask_body(api, route, *edges).status_code for route in BODIES}

    assert addresses == {**dict.fromkeys(ADDRESSES, 200), "group": 404, "unarchive": 202}
    assert bodies == dict.fromkeys(BODIES, 202)


def test_the_widest_range_holds_everything(api: Api) -> None:
    api.receive(failure())

    assert ask_address(api, "errors", *EDGES[0]).headers["Total-Count"] == "1"
