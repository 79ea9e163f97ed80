"""`retrier login` and `retrier logout`: a token of the provider, by a code that a person types there."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from retrier.api.shapes.service import Authentication, MyRoutes
from retrier.cli.api_client import Late
from retrier.cli.command import CalledService, Tools, command, make_app, tools_of, user_agent
from retrier.cli.logins import (
    Login,
    ask,
    check_address,
    login_of,
    logins_of_this_person,
    words_of,
)
from retrier.cli.printer import harmless
from retrier.domain.text import redact
from retrier.domain.values import dataclass
from retrier.errors import RequestRefused

if TYPE_CHECKING:
    import httpx
else:
    httpx = Late("httpx")

app = make_app("Log in and log out.")

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL, _SLOWER, _LONGEST = 5, 5, 900
"""Seconds from one question to the next; what is added if that was too often; the longest wait."""
_OK, _UNAUTHORIZED = 200, 401

ClientId = Annotated[
    str,
    typer.Option(
        "--client-id",
        metavar="ID",
        help="A client of the provider that needs no secret; without it: that of the service.",
    ),
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier login --url https://retrier.example
      retrier login --client-id retrier-cli
    """
)
@command
def login(ctx: typer.Context, service: CalledService, client_id: ClientId = "") -> None:
    """Log in with the provider of a service; the token is kept for you alone.

    It opens no browser: it shows an address and a code. Commands use the token where neither
    --token-file nor RETRIER_TOKEN gives one, and renew it where the provider lets them.
    """
    tools = tools_of(ctx)
    logins = logins_of_this_person()
    logins.find(service.base)  # what is wrong with the file is told before anybody logs in
    with service.open(ctx, as_nobody=True) as api:
        told = api.find(Authentication, "authentication", "configuration")
    if not told["enabled"]:
        raise RequestRefused(
            "This service has no provider of log-ins. Give a token: --token-file or RETRIER_TOKEN."
        )
    with tools.connect(told["authority"], user_agent()) as http:
        found = _Flow(tools, http, told, client_id or told["client_id"]).run()
    logins.keep(service.base, found)
    with service.open(ctx) as api:
        mine = api.find(MyRoutes, "my", "routes")
    roles = ", ".join(mine["roles"])
    shown = {
        "service": redact(service.base),
        "roles": list(mine["roles"]),
        "kept_in": str(logins.file),
    }
    service.printer(ctx).show(
        shown, f"logged in at {redact(service.base)}: role {roles}; the token is in {logins.file}"
    )


@app.command(epilog="Example: retrier logout")
@command
def logout(ctx: typer.Context, service: CalledService) -> None:
    """Forget the token of a service, which `retrier login` has kept."""
    logins = logins_of_this_person()
    is_known = logins.find(service.base) is not None
    if is_known:
        logins.keep(service.base, None)
    words = "the token is deleted" if is_known else "no token was kept"
    service.printer(ctx).show({"deleted": is_known}, f"{words}: {redact(service.base)}")


@dataclass(frozen=True, slots=True)
class _Flow:
    """One log-in by the device flow (RFC 8628)."""

    tools: Tools
    http: "httpx.Client"
    told: Authentication
    client_id: str

    def run(self) -> Login:
        """Return the token. Raises RequestRefused and ServiceUnavailable."""
        endpoints = self._discover()
        begun = self._begin(endpoints)
        self._show(begun)
        empty = Login(
            token="",
            ends=0,
            renews_with="",
            token_endpoint=str(endpoints["token_endpoint"]),
            client_id=self.client_id,
        )
        told = self._wait(empty.token_endpoint, begun)
        return login_of(told, empty, self.tools.clock.now().timestamp())

    def _discover(self) -> Mapping[str, object]:
        issuer = self.told["authority"]
        _, found = ask(self.http, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise RequestRefused(f"What answers at {issuer} calls itself {found.get('issuer')}.")
        if not isinstance(found.get("device_authorization_endpoint"), str):
            raise RequestRefused(
                f"The provider {issuer} has no log-in for devices. Give a token: --token-file or "
                "RETRIER_TOKEN."
            )
        return found

    def _begin(self, endpoints: Mapping[str, object]) -> Mapping[str, object]:
        scopes = [str(each) for each in json.loads(self.told["api_scopes"])]
        supported = endpoints.get("scopes_supported")
        if isinstance(supported, list) and "offline_access" in supported:
            scopes.append("offline_access")
        form = {"client_id": self.client_id, "scope": " ".join(dict.fromkeys(scopes))}
        if self.told["audience"] != self.told["client_id"]:
            form["audience"] = self.told["audience"]
        address = str(endpoints["device_authorization_endpoint"])
        status, begun = ask(self.http, address, form)
        if status != _OK or not {"device_code", "user_code", "verification_uri"} <= begun.keys():
            raise _refusal(status, begun)
        return begun

    def _show(self, begun: Mapping[str, object]) -> None:
        address = str(begun.get("verification_uri_complete") or begun["verification_uri"])
        check_address(address)
        self.tools.printer.note(f"open {harmless(address)}")
        self.tools.printer.note(f"and confirm the code {harmless(str(begun['user_code']))}")

    def _wait(self, address: str, begun: Mapping[str, object]) -> Mapping[str, object]:
        pause = _seconds(begun.get("interval"), _INTERVAL)
        end = self.tools.clock.monotonic() + _seconds(begun.get("expires_in"), _LONGEST)
        form = {
            "grant_type": _GRANT,
            "device_code": str(begun["device_code"]),
            "client_id": self.client_id,
        }
        while self.tools.clock.monotonic() < end:
            self.tools.pause(pause)
            status, told = ask(self.http, address, form)
            match told.get("error"):
                case "authorization_pending":
                    continue
                case "slow_down":
                    pause += _SLOWER
                case _ if status == _OK:
                    return told
                case _:
                    raise _refusal(status, told)
        raise RequestRefused("Nobody has confirmed the code in time.")


def _seconds(told: object, otherwise: int) -> int:
    known = isinstance(told, int) and not isinstance(told, bool) and told > 0
    return min(int(str(told)), _LONGEST) if known else otherwise


def _refusal(status: int, told: Mapping[str, object]) -> RequestRefused:
    advice = ""
    if status == _UNAUTHORIZED or told.get("error") in ("invalid_client", "unauthorized_client"):
        advice = " Name a client that needs no secret, and may do this: --client-id."
    return RequestRefused(f"The provider refuses this log-in: {words_of(told)}.{advice}")
