"""Clients of the API that come with a token of the provider, as ServicePulse does."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retrier.api.application import create_api
from retrier.api.configuration import authentication_of
from retrier.api.parts import ConfiguredLogin
from retrier.clock import SystemClock
from retrier.domain.access import AccessRules
from retrier.http.access import Gate
from retrier.http.oidc import Provider
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.http_client import TestClient, client_of
from tests.support.log_in import rules_for
from tests.support.provider import FakeProvider, running_provider


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def http(tmp_path: Path, fake: FakeProvider) -> Iterator[TestClient]:
    """Give a client of an API that needs no database for what it is asked."""
    api = Api(Database(DatabaseOptions(url=f"sqlite:///{tmp_path}/unused.db")))
    provider = Provider(rules_for(fake), SystemClock())
    gate = Gate(api.db, AccessRules(), bearer=provider)
    guarded = create_api(replace(api.app.state.parts, gate=gate))
    with client_of(guarded) as client:
        yield client
    api.http.close()
    api.db.dispose()


def ask(http: TestClient, path: str, token: str) -> Any:
    return http.get(f"/api/{path}", headers={"Authorization": f"Bearer {token}"})


def test_without_a_token_nobody_is_answered(http: TestClient) -> None:
    answer = http.get("/api/my/routes")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="Retrier"'


def test_how_to_log_in_is_said_to_everybody(http: TestClient) -> None:
    assert http.get("/api/authentication/configuration").json()["enabled"] is False


def test_clients_are_told_where_they_get_a_token_and_for_whom() -> None:
    login = ConfiguredLogin(
        issuer="https://id.example/realms/shop",
        client_id="retrier",
        audience="api://retrier",
        scopes=("openid", "email"),
    )

    assert authentication_of(login) == {
        "enabled": True,
        "role_based_authorization_enabled": True,
        "authority": "https://id.example/realms/shop",
        "client_id": "retrier",
        "audience": "api://retrier",
        "api_scopes": '["openid", "email"]',
    }


def test_an_admin_may_call_every_route(http: TestClient, fake: FakeProvider) -> None:
    told = ask(http, "my/routes", fake.sign()).json()

    paths = http.app.openapi()["paths"]  # type: ignore[attr-defined]
    assert told["roles"] == ["admin"]
    assert len(told["routes"]) == sum(len(methods) for methods in paths.values())


def test_a_reader_is_shown_no_route_that_acts(http: TestClient, fake: FakeProvider) -> None:
    told = ask(http, "my/routes", fake.sign(roles=["retrier-readers"])).json()

    assert told["roles"] == ["reader"]
    assert {"method": "GET", "url_template": "/api/errors"} in told["routes"]
    assert {"method": "POST", "url_template": "/api/errors/retry"} not in told["routes"]
    assert {"method": "GET", "url_template": "/api/messages/{message_id}/body"} not in told[
        "routes"
    ]


def test_what_is_not_listed_as_callable_is_refused(http: TestClient, fake: FakeProvider) -> None:
    headers = {"Authorization": f"Bearer {fake.sign(roles=['retrier-readers'])}"}

    assert http.post("/api/errors/retry", json=[], headers=headers).status_code == 403


def test_an_expired_token_is_refused_with_the_reason(http: TestClient, fake: FakeProvider) -> None:
    answer = ask(http, "my/routes", fake.sign(exp=1_000))

    assert answer.status_code == 401
    assert "does not hold" in answer.json()["detail"]


def test_two_tokens_at_once_are_refused(http: TestClient, fake: FakeProvider) -> None:
    bearer = f"Bearer {fake.sign()}"
    answer = http.get(
        "/api/my/routes", headers=[("Authorization", bearer), ("Authorization", bearer)]
    )

    assert answer.status_code == 401


def test_who_guesses_is_no_longer_answered(http: TestClient, fake: FakeProvider) -> None:
    statuses = [ask(http, "my/routes", fake.sign(exp=1_000)).status_code for _ in range(30)]

    assert 429 in statuses
