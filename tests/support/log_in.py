"""The page for who has to log in, with a provider on loopback, and a browser's cookies."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
from starlette.requests import Request

from retrier.api.middleware import Callers, RequestMiddleware
from retrier.app.server import Peers
from retrier.clock import SystemClock
from retrier.domain.access import AccessRole, AccessRules
from retrier.domain.hosts import Hosts, Proxies, parse_host
from retrier.domain.oidc import OidcRules
from retrier.http.access import SESSION_COOKIE, Gate
from retrier.http.oidc import Provider
from retrier.web.application import create_page
from tests.support.http_client import TestClient
from tests.support.provider import CLIENT, FakeProvider
from tests.support.web import Web

ROLES = (
    (AccessRole.READER, ("retrier-readers",)),
    (AccessRole.OPERATOR, ("retrier-ops",)),
    (AccessRole.ADMIN, ("retrier-admins",)),
)
FORM = {"Origin": "http://localhost"}
HOSTS = Hosts(frozenset(filter(None, [parse_host("retrier.example")])))


def rules_for(fake: FakeProvider) -> OidcRules:
    """Return the rules with which the tests log people in."""
    return OidcRules(issuer=fake.issuer, client_id=CLIENT, roles=ROLES)


class Door:
    """A page that asks who somebody is. `http` is one browser, `another` makes more.

    `beyond` are the addresses of proxies that are trusted.
    """

    def __init__(
        self,
        web: Web,
        oidc: OidcRules | None,
        rules: AccessRules | None = None,
        beyond: Sequence[str] = (),
    ) -> None:
        provider = None if oidc is None else Provider(oidc, SystemClock())
        self.gate = gate = Gate(
            web.api.db,
            rules or AccessRules(),
            bearer=provider,
            seal="" if provider is None else provider.seal,
        )
        self.provider = provider
        self._page = create_page(replace(web.parts, gate=gate, login=provider))
        self._page.add_middleware(
            RequestMiddleware, callers=Callers(hosts=HOSTS, proxies=Proxies())
        )
        self._beyond = beyond
        self.http = self.another()

    def another(self, base: str = "http://localhost", peer: str = "127.0.0.1") -> TestClient:
        """Return a browser with no cookies yet."""
        return TestClient(
            Peers(self._page, self._beyond),
            base_url=base,
            raise_server_exceptions=False,
            follow_redirects=False,
            client=(peer, 50_000),
        )

    def log_in(self, browser: TestClient | None = None, back: str = "/") -> httpx.Response:
        """Log in as who the provider takes them for; return the last answer of ours."""
        browser = browser or self.http
        return self.come_back(self.way_back(browser, back), browser)

    def way_back(self, browser: TestClient | None = None, back: str = "/") -> str:
        """Begin to log in, and return the address to which the provider sends the browser."""
        begun: httpx.Response = (browser or self.http).get("/login/begin", params={"next": back})
        assert begun.status_code == 303, begun.text
        return httpx.get(begun.headers["location"], trust_env=False).headers["location"]

    def come_back(self, address: str, browser: TestClient | None = None) -> httpx.Response:
        """Open an address to which the provider sends the browser."""
        parts = urlsplit(address)
        answer: httpx.Response = (browser or self.http).get(f"{parts.path}?{parts.query}")
        return answer

    def is_over(self) -> bool:
        """Say whether what the browser has open, such as live values, ends now."""
        cookie = f"{SESSION_COOKIE}={self.http.cookies[SESSION_COOKIE]}".encode()
        headers = [(b"host", b"localhost"), (b"cookie", cookie)]
        scope = {"type": "http", "scheme": "http", "path": "/", "headers": headers}
        return asyncio.run(self.gate.is_over(Request(scope)))

    def is_in(self, browser: TestClient | None = None) -> bool:
        """Say whether the browser is shown what is kept here."""
        return bool((browser or self.http).get("/").status_code == 200)
