"""Who may ask the API for what: by role on every route, and by queue in every way to name messages."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select

from retrier.api.application import FOLLOWING, WORKING
from retrier.domain.access import HIDDEN, NEEDED, NOT_YOURS, AccessRole, Right
from retrier.http.rights import RIGHTS, route_name
from retrier.store.engine.database import Database
from retrier.store.schema import (
    failed_imports,
    failed_message_retries,
    failed_messages,
    group_comments,
    message_redirects,
    retry_operations,
)
from tests.support.access import OTHER, OWN, bearer, rules, token_of
from tests.support.api import Api
from tests.support.factories import failed_import, failure

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

OPEN_TO_ALL = {"/api/authentication/configuration", "/health", "/health/ready"}
_ID = "0f0f0f0f-0000-4000-8000-000000000001"
_NARROW = bearer(AccessRole.OPERATOR, is_narrow=True)
_NARROW_ADMIN = bearer(AccessRole.ADMIN, is_narrow=True)


@pytest.fixture
def api(database: Database) -> Iterator[Api]:
    """Give an API that asks who asks."""
    made = Api(database, rules=rules())
    yield made
    made.http.close()


def import_one(api: Api, body: bytes = b"?") -> str:
    """Keep a failed import; return its id."""
    api.receive(failed_import(body=body))
    (found,) = api.http.get("/api/imports", headers=bearer(AccessRole.ADMIN)).json()
    return str(found["id"])


ROUTES = [route for router in WORKING for route in router.routes if isinstance(route, APIRoute)]


def ask(api: Api, route: APIRoute, headers: Any) -> Any:
    path = re.sub(r"\{[^}]*\}", _ID, route.path)
    (method,) = route.methods
    content = {} if method in ("GET", "HEAD") else {"json": {}}
    return api.http.request(method, path, headers=headers, **content)


def test_nobody_is_answered_on_any_route(api: Api) -> None:
    following = [each for router in FOLLOWING for each in router.routes]
    routes = [*ROUTES, *(each for each in following if isinstance(each, APIRoute))]

    answers = {route.path: ask(api, route, {}) for route in routes}

    assert {path for path, each in answers.items() if each.status_code != 401} == set()
    assert all("Bearer" in each.headers["WWW-Authenticate"] for each in answers.values())


def test_how_to_log_in_and_health_are_told_to_all(api: Api) -> None:
    answers = {path: api.http.get(path).status_code for path in OPEN_TO_ALL}

    assert answers == dict.fromkeys(OPEN_TO_ALL, 200)


def test_metrics_and_reasons_are_told_to_who_may_read(api: Api) -> None:
    reader = bearer(AccessRole.READER)

    answers = [api.http.get("/metrics", headers=each).status_code for each in ({}, reader)]
    reasons = [
        api.http.get("/health/ready", headers=each).json()["parts"]["database"]["reason"]
        for each in ({}, reader)
    ]

    assert answers == [401, 200]
    assert reasons == ["told to who is logged in", "reached"]


@pytest.mark.parametrize("role", AccessRole)
def test_a_role_may_ask_what_its_rights_allow_and_nothing_else(api: Api, role: AccessRole) -> None:
    refused, wanted = set(), set()
    for route in ROUTES:
        (method,) = route.methods
        reads = method in ("GET", "HEAD")
        right = RIGHTS.get(route_name(route.endpoint), Right.READ if reads else Right.TOKEN)
        if list(AccessRole).index(NEEDED[right]) > list(AccessRole).index(role):
            wanted.add((method, route.path))
        if ask(api, route, bearer(role)).status_code == 403:
            refused.add((method, route.path))

    assert refused == wanted


def test_a_reader_may_ask_for_no_change_at_all(api: Api) -> None:
    writing = [each for each in ROUTES if each.methods.isdisjoint({"GET", "HEAD"})]
    harmless = {each for each, right in RIGHTS.items() if right is Right.READ}

    answered = {
        route_name(each.endpoint)
        for each in writing
        if ask(api, each, bearer(AccessRole.READER)).status_code != 403
    }

    assert answered == {each for each in harmless if each.startswith("retrier.api.")}


def test_every_right_stands_at_a_route_that_there_is(api: Api) -> None:  # noqa: ARG001 - as all
    known = {route_name(each.endpoint) for each in ROUTES}

    assert {each for each in RIGHTS if each.startswith("retrier.api.")} <= known


def test_every_route_that_writes_has_a_right(api: Api) -> None:  # noqa: ARG001 - as all
    writing = {
        route_name(each.endpoint) for each in ROUTES if each.methods.isdisjoint({"GET", "HEAD"})
    }

    assert writing - RIGHTS.keys() == set()


@pytest.mark.parametrize(
    "sent",
    [
        {"Authorization": "Bearer rtr_0000"},
        {"Authorization": f"Bearer {token_of(AccessRole.ADMIN)[:-1]}0"},
        {"Authorization": f"Basic {token_of(AccessRole.ADMIN)}"},
        {"Authorization": token_of(AccessRole.ADMIN)},
        {"Authorization": "Bearer "},
        {"Cookie": "retrier_session=0123456789abcdef"},
        {"X-Forwarded-Email": "ada@shop.example", "X-Forwarded-Groups": "admins"},
    ],
)
def test_what_is_no_token_lets_nobody_in(api: Api, sent: dict[str, str]) -> None:
    assert api.http.get("/api/errors", headers=sent).status_code == 401


def test_who_guesses_is_not_answered_for_ever(api: Api) -> None:
    wrong = {"Authorization": f"Bearer rtr_{'0' * 72}"}

    statuses = [api.http.get("/api/errors", headers=wrong).status_code for _ in range(15)]
    known = api.http.get("/api/errors", headers=bearer(AccessRole.READER)).status_code
    api.clock.advance(1)

    assert statuses == [401] * 9 + [429] * 6
    assert known == 200
    assert api.http.get("/api/errors", headers=wrong).status_code == 401


def test_a_reader_sees_no_body_and_no_value_of_a_header(api: Api) -> None:
    (key,) = api.receive(failure(headers={"Shop.Card": "card-of-ada"}, body=b"secret-body"))
    imported = import_one(api, b"secret-body")
    reader = bearer(AccessRole.READER)
    paths = [
        *(f"errors/{key}", f"errors/{key}/attempts", "errors", "messages", "imports"),
        *(f"imports/{imported}", f"errors/last/{key}", f"errors/{key}/events"),
    ]

    texts = "".join(api.http.get(f"/api/{path}", headers=reader).text for path in paths)

    assert "card-of-ada" not in texts
    assert "secret-body" not in texts
    assert HIDDEN in texts
    assert api.http.get(f"/api/messages/{key}/body", headers=reader).status_code == 403
    content = bearer(AccessRole.CONTENT)
    assert "card-of-ada" in api.http.get(f"/api/errors/{key}", headers=content).text
    assert api.http.get(f"/api/messages/{key}/body", headers=content).content == b"secret-body"


def test_who_asked_is_named_by_the_token(api: Api) -> None:
    (key,) = api.receive(failure())
    headers = {**bearer(AccessRole.OPERATOR), "X-Retrier-User": "ci"}

    api.http.post(f"/api/errors/{key}/retry", headers=headers)

    (operation,) = api.http.get("/api/operations", headers=headers).json()
    assert operation["requested_by"] == "ci (token operator-all, testclient)"


def snapshot(db: Database) -> list[Any]:
    """Return what acts would change."""
    tables = (
        *(failed_messages, failed_message_retries, retry_operations, failed_imports),
        *(group_comments, message_redirects),
    )
    with db.engine.connect() as conn:
        return [conn.execute(select(table)).all() for table in tables]


def elsewhere(key: str, group: str, imported: str) -> list[tuple[str, str, Any]]:
    """Return every way to name what failed elsewhere, and to act on it."""
    return [
        ("POST", f"errors/{key}/retry", None),
        ("POST", "errors/retry", [key]),
        ("POST", f"errors/queues/{OTHER}/retry", None),
        ("POST", "operations", {"selection": {"ids": [key]}}),
        ("POST", "operations", {"selection": {"queue": OTHER}}),
        ("POST", "operations", {"selection": {"all": True}, "destination": OTHER}),
        ("POST", f"errors/{key}/archive", None),
        ("PATCH", "errors/archive", [key]),
        ("POST", f"errors/{key}/dead", {"why": "gone"}),
        ("POST", f"errors/{key}/revive", None),
        ("POST", "archive_operations", {"act": "archive", "selection": {"queue": OTHER}}),
        ("PATCH", "pendingretries/resolve", {"uniquemessageids": [key]}),
        ("POST", "pendingretries/retry", [key]),
        ("POST", f"recoverability/groups/{group}/comment?comment=hello", None),
        ("DELETE", f"recoverability/groups/{group}/comment", None),
        ("POST", f"streams/1/release?queue={OTHER}", {}),
        ("POST", "redirects", {"fromphysicaladdress": OTHER, "tophysicaladdress": OWN}),
        ("POST", "redirects", {"fromphysicaladdress": OWN, "tophysicaladdress": OTHER}),
        ("POST", f"breakers/{OTHER}/open", {"why": "x"}),
        ("POST", "recovery", {"since": "1h"}),
        ("POST", "tokens", {"name": "more", "role": "admin"}),
        ("POST", "imports/retry", {}),
        ("DELETE", f"imports/{imported}", None),
        ("POST", f"imports/{imported}/retry", None),
        ("POST", f"imports/{imported}/send", {"to": OTHER}),
    ]


@pytest.mark.parametrize("headers", [_NARROW, _NARROW_ADMIN], ids=["operator", "admin"])
def test_what_failed_elsewhere_cannot_be_acted_on(api: Api, headers: dict[str, str]) -> None:
    (key,) = api.receive(failure(queue=OTHER))
    imported = import_one(api)
    known = bearer(AccessRole.ADMIN)
    groups = api.http.get("/api/recoverability/groups", headers=known).json()
    before = snapshot(api.db)

    statuses = {
        (method, path): api.http.request(
            method, f"/api/{path}", headers=headers, **({} if body is None else {"json": body})
        ).status_code
        for method, path, body in elsewhere(key, groups[0]["id"], imported)
    }

    assert {each for each, status in statuses.items() if status != 403} == set()
    assert snapshot(api.db) == before


def test_of_a_group_only_what_failed_on_own_queues_is_retried(api: Api) -> None:
    own, _ = api.receive(failure(queue=OWN), failure(queue=OTHER))

    made = api.http.post("/api/errors/retry/all", headers=_NARROW).json()
    shown = api.http.get(f"/api/operations/{made['operation_id']}", headers=_NARROW).json()

    assert made["total"] == 1
    assert shown["total"] == 1
    assert own


def test_a_preview_counts_what_is_not_ones_own(api: Api) -> None:
    api.receive(failure(queue=OWN), failure(queue=OTHER), failure(queue=OTHER))

    found = api.http.post(
        "/api/operations/preview", headers=_NARROW, json={"selection": {"all": True}}
    ).json()

    assert found["total"] == 1
    assert {"reason": NOT_YOURS, "count": 2} in found["skipped"]


def test_of_named_messages_those_of_other_queues_are_left_out_and_told(api: Api) -> None:
    own, other = api.receive(failure(queue=OWN), failure(queue=OTHER))

    made = api.http.post("/api/errors/retry", headers=_NARROW, json=[own, other]).json()

    assert made["total"] == 1
    assert made["skipped_messages"] == [{"id": other, "reason": NOT_YOURS}]


def test_an_operation_of_somebody_with_more_rights_cannot_be_steered(api: Api) -> None:
    api.receive(failure(queue=OWN), failure(queue=OTHER))
    admin = bearer(AccessRole.ADMIN)
    made = api.http.post("/api/errors/retry/all", headers=admin).json()
    path = f"/api/operations/{made['operation_id']}"

    assert api.http.delete(path, headers=_NARROW).status_code == 403
    assert api.http.patch(path, headers=_NARROW, json={"paused": True}).status_code == 403
    assert api.http.patch(path, headers=admin, json={"paused": True}).status_code == 200


def test_ones_own_operation_can_be_steered(api: Api) -> None:
    api.receive(failure(queue=OWN))
    made = api.http.post("/api/errors/retry/all", headers=_NARROW).json()

    answer = api.http.delete(f"/api/operations/{made['operation_id']}", headers=_NARROW)

    assert answer.status_code == 202


def test_a_token_of_the_database_lets_in_until_it_is_revoked(api: Api) -> None:
    admin = bearer(AccessRole.ADMIN)
    made = api.http.post("/api/tokens", headers=admin, json={"name": "ci", "role": "operator"})
    token = {"Authorization": f"Bearer {made.json()['token']}"}
    before = api.http.get("/api/errors", headers=token).status_code
    api.http.delete("/api/tokens/ci", headers=admin)
    api.clock.advance(1)

    assert made.status_code == 201
    assert before == 200
    assert api.http.get("/api/errors", headers=token).status_code == 401
    (listed,) = api.http.get("/api/tokens", headers=admin).json()
    assert made.json()["token"] not in str(listed)
    assert listed["revoked_by"] == "token admin-all (testclient)"


def test_without_rules_everybody_may_everything(database: Database) -> None:
    api = Api(database)

    assert api.http.get("/api/errors").status_code == 200
    assert api.http.post("/api/errors/retry/all").status_code == 202
    api.http.close()


def test_names_of_tokens_of_the_settings_are_not_given_again(api: Api) -> None:
    admin = bearer(AccessRole.ADMIN)
    given = rules().tokens[0].name

    made = api.http.post("/api/tokens", headers=admin, json={"name": given, "role": "reader"})
    revoked = api.http.delete(f"/api/tokens/{given}", headers=admin)

    assert (made.status_code, revoked.status_code) == (409, 409)


def test_who_has_some_queues_is_not_told_what_a_key_was_used_for(api: Api) -> None:
    own, other = api.receive(failure(queue=OWN), failure(queue=OTHER))
    key = {"Idempotency-Key": "k"}
    api.http.post(f"/api/errors/{other}/retry", headers={**bearer(AccessRole.ADMIN), **key})

    answer = api.http.post(f"/api/errors/{own}/retry", headers={**_NARROW, **key})

    assert answer.status_code == 422
    assert other not in answer.text


def test_tokens_are_listed_for_who_has_all_queues(api: Api) -> None:
    assert api.http.get("/api/tokens", headers=_NARROW_ADMIN).status_code == 403


def test_no_token_is_made_over_http_where_nobody_is_asked(database: Database) -> None:
    api = Api(database)

    answer = api.http.post("/api/tokens", json={"name": "x", "role": "admin"})

    assert answer.status_code == 409
    api.http.close()
