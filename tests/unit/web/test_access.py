"""Who may do what on the page: by role on every address, and by queue."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from retrier.domain.access import HIDDEN, NEEDED, AccessRole, Right
from retrier.http.rights import RIGHTS, route_name
from retrier.store.engine.database import Database
from retrier.web.application import WORKING
from tests.support.access import OTHER, OWN, bearer, rules
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.web import Web

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

_ID = "0f0f0f0f-0000-4000-8000-000000000001"
_ORIGIN = {"Origin": "http://localhost"}
_NARROW = {**bearer(AccessRole.OPERATOR, is_narrow=True), **_ORIGIN}

ROUTES = [route for router in WORKING for route in router.routes if isinstance(route, APIRoute)]


@pytest.fixture
def web(database: Database) -> Iterator[Web]:
    """Give a page that asks who asks."""
    api = Api(database, rules=rules())
    made = Web(api)
    yield made
    made.close()
    api.http.close()


def ask(web: Web, route: APIRoute, headers: Any) -> Any:
    path = re.sub(r"\{[^}]*\}", _ID, route.path)
    (method,) = route.methods
    content = {} if method == "GET" else {"data": {"key": "k"}}
    return web.http.request(method, path, headers={**headers, **_ORIGIN}, **content)


def test_nobody_is_shown_any_page(web: Web) -> None:
    shown = {route.path for route in ROUTES if ask(web, route, {}).status_code != 401}

    assert shown == set()


@pytest.mark.parametrize("role", AccessRole)
def test_a_role_may_do_what_its_rights_allow_and_nothing_else(web: Web, role: AccessRole) -> None:
    refused, wanted = set(), set()
    for route in ROUTES:
        (method,) = route.methods
        otherwise = Right.READ if method == "GET" else Right.CONFIGURE
        right = RIGHTS.get(route_name(route.endpoint), otherwise)
        if list(AccessRole).index(NEEDED[right]) > list(AccessRole).index(role):
            wanted.add((method, route.path))
        if ask(web, route, bearer(role)).status_code == 403:
            refused.add((method, route.path))

    assert refused == wanted


def test_every_address_that_does_something_has_a_right(web: Web) -> None:  # noqa: ARG001 - as all
    acting = {route_name(each.endpoint) for each in ROUTES if "POST" in each.methods}

    assert acting - RIGHTS.keys() == set()
    assert {each for each in RIGHTS if each.startswith("retrier.web.")} <= {
        route_name(each.endpoint) for each in ROUTES
    }


def test_a_reader_is_shown_neither_body_nor_value_of_a_header(web: Web) -> None:
    (key,) = web.api.receive(failure(headers={"Shop.Card": "4711"}, body=b"secret-body"))
    reader = bearer(AccessRole.READER)
    pages = [
        web.http.get(path, headers=reader).text
        for path in ("/messages", f"/messages/{key}", "/", "/groups")
    ]

    assert HIDDEN in pages[1]
    assert "4711" not in "".join(pages)
    assert "secret-body" not in "".join(pages)
    assert web.http.get(f"/messages/{key}/body", headers=reader).status_code == 403


def test_what_failed_elsewhere_cannot_be_acted_on(web: Web) -> None:
    (key,) = web.api.receive(failure(queue=OTHER))
    acts = ("retry", "archive", "resolve", "dead", "revive", "again")

    statuses = {
        act: web.http.post(
            f"/messages/{key}/{act}", headers=_NARROW, data={"key": act, "why": "x"}
        ).status_code
        for act in acts
    }

    assert statuses == dict.fromkeys(acts, 403)
    assert web.http.post(
        "/messages/retry", headers=_NARROW, data={"key": "k", "queue": OTHER}
    ).status_code in (400, 403)


def test_a_preview_shows_what_is_not_ones_own(web: Web) -> None:
    web.api.receive(failure(queue=OWN), failure(queue=OTHER))

    shown = web.http.get("/messages/selected?act=retry&all=1", headers=_NARROW).text

    assert "Retry 1 message" in shown
    assert "no right" in shown


class TestWhoReadsOwnQueuesOnly:
    @pytest.fixture
    def web(self, database: Database) -> Iterator[Web]:
        api = Api(database, rules=rules(reads_own_only=True))
        made = Web(api)
        yield made
        made.close()
        api.http.close()

    def test_sees_no_trace_of_other_queues_on_any_page(self, web: Web) -> None:
        own, other = web.api.receive(failure(queue=OWN), failure(queue=OTHER, endpoint="Billing"))
        admin = bearer(AccessRole.ADMIN)
        for key in (own, other):
            web.api.http.post(f"/api/errors/{key}/retry", headers=admin)
        reading = [each for each in ROUTES if "GET" in each.methods]

        texts = {each.path: ask(web, each, _NARROW).text.lower() for each in reading}

        assert {path for path, text in texts.items() if OTHER in text or other in text} == set()
        assert "1 message" in texts["/"]

    def test_is_told_nothing_live(self, web: Web) -> None:
        assert web.http.get("/events/page", headers=_NARROW).status_code == 204
