"""`retrier login`: a token of the provider for the command line, kept for one person alone."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from retrier.api.application import create_api
from retrier.api.parts import Configured, ConfiguredLogin
from retrier.domain.access import AccessRules
from retrier.http.access import Gate
from retrier.http.oidc import Provider
from tests.support.command_line import CommandLine
from tests.support.http_client import client_of
from tests.support.log_in import rules_for
from tests.support.provider import CLIENT, FakeProvider, running_provider

SERVICE = "http://127.0.0.1:33333"


@pytest.fixture
def fake(cli: CommandLine) -> Iterator[FakeProvider]:
    with running_provider() as provider:
        provider.now = cli.clock.now().timestamp()
        yield provider


class Desk:
    """A command line whose service asks who somebody is."""

    def __init__(self, cli: CommandLine, fake: FakeProvider, home: Path) -> None:
        self.cli, self.home = cli, home
        provider = Provider(rules_for(fake), cli.clock)
        login = ConfiguredLogin(
            issuer=fake.issuer, client_id=CLIENT, audience=CLIENT, scopes=("openid",)
        )
        parts = replace(
            cli.api.app.state.parts,
            gate=Gate(cli.api.db, AccessRules(), bearer=provider, clock=cli.clock),
            configured=Configured(login=login),
        )
        api = create_api(parts)
        self._service = client_of(api)
        cli.answer = self._answer
        cli.on_pause = lambda: cli.clock.advance(5)

    @property
    def file(self) -> Path:
        return self.home / "retrier" / "logins.json"

    def run(self, *words: str, **environ: str) -> Any:
        return self.cli.run(*words, XDG_CONFIG_HOME=str(self.home), **environ)

    def kept(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.file.read_text())
        return found

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if f"{request.url.scheme}://{request.url.netloc.decode()}" == SERVICE:
            answer = self._service.request(
                request.method,
                request.url.raw_path.decode(),
                content=request.content,
                headers={k: v for k, v in request.headers.items() if k != "host"},
            )
        else:
            answer = httpx.request(
                request.method,
                str(request.url),
                content=request.content,
                headers=request.headers,
                trust_env=False,
            )
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture
def desk(cli: CommandLine, fake: FakeProvider, tmp_path: Path) -> Desk:
    return Desk(cli, fake, tmp_path)


def test_without_a_log_in_the_service_refuses(desk: Desk) -> None:
    result = desk.run("errors", "list")

    assert result.exit_code == 1
    assert "Who asks?" in result.stderr


def test_a_person_confirms_a_code_and_is_logged_in(desk: Desk, fake: FakeProvider) -> None:
    fake.approved = False
    result = desk.run("login")

    assert result.exit_code == 0, result.stderr
    assert f"open {fake.issuer}/activate" in result.stderr
    assert "ABCD-EFGH" in result.stderr
    assert f"logged in at {SERVICE}: role admin" in result.stdout
    assert desk.run("errors", "list").exit_code == 0


def test_the_token_is_kept_for_one_person_alone(desk: Desk) -> None:
    desk.run("login")

    assert desk.file.stat().st_mode & 0o777 == 0o600
    assert desk.file.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_can_read_is_not_used(desk: Desk) -> None:
    desk.run("login")
    desk.file.chmod(0o644)
    result = desk.run("errors", "list")

    assert result.exit_code == 2
    assert "can be read by others" in result.stderr


def test_another_service_is_not_sent_the_token(desk: Desk, fake: FakeProvider) -> None:
    desk.run("login")
    desk.run("errors", "list", "--url", fake.issuer)

    sent = [each for each in desk.cli.requests if str(each.url).startswith(f"{fake.issuer}/api")]
    assert sent
    assert all("authorization" not in each.headers for each in sent)


def test_a_token_that_is_given_goes_before_the_one_that_is_kept(desk: Desk) -> None:
    desk.run("login")
    desk.cli.requests.clear()
    desk.run("errors", "list", RETRIER_TOKEN="a.b.c")

    assert {each.headers["authorization"] for each in desk.cli.requests} == {"Bearer a.b.c"}


def test_a_token_that_has_run_out_is_renewed(desk: Desk, fake: FakeProvider) -> None:
    fake.gives_refresh = True
    desk.run("login")
    before = desk.kept()[SERVICE]["token"]
    desk.cli.clock.advance(600)
    fake.now = desk.cli.clock.now().timestamp()

    assert desk.run("errors", "list").exit_code == 0
    assert desk.kept()[SERVICE]["token"] != before


def test_a_log_in_that_cannot_be_renewed_has_to_be_repeated(desk: Desk) -> None:
    desk.run("login")
    desk.cli.clock.advance(600)
    result = desk.run("errors", "list")

    assert result.exit_code == 1
    assert "Log in again: `retrier login`" in result.stderr


def test_log_out_deletes_the_token(desk: Desk) -> None:
    desk.run("login")

    assert "the token is deleted" in desk.run("logout").stdout
    assert desk.kept() == {}
    assert "no token was kept" in desk.run("logout").stdout


def test_a_code_that_nobody_confirms_ends(desk: Desk, fake: FakeProvider) -> None:
    fake.approved = False
    desk.cli.on_pause = lambda: desk.cli.clock.advance(700)
    result = desk.run("login")

    assert result.exit_code == 1
    assert "Nobody has confirmed the code in time" in result.stderr
    assert not desk.file.exists()


def test_a_provider_without_log_in_for_devices_is_told(desk: Desk, fake: FakeProvider) -> None:
    fake.says = {"device_authorization_endpoint": None}

    assert "has no log-in for devices" in desk.run("login").stderr


def test_a_provider_that_others_could_read_along_is_refused(desk: Desk, fake: FakeProvider) -> None:
    fake.says = {"token_endpoint": "http://id.example/token"}

    assert "does not begin with https://" in desk.run("login").stderr


def test_a_service_without_a_provider_says_what_to_do(cli: CommandLine, tmp_path: Path) -> None:
    result = cli.run("login", XDG_CONFIG_HOME=str(tmp_path))

    assert result.exit_code == 1
    assert "has no provider of log-ins" in result.stderr
