"""A provider of log-ins on loopback, with everything it says under the test's control.

It signs, answers over HTTP and checks what it is asked as OpenID Connect demands; and it can lie.
"""

import hmac
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeyParameters, OKPKey, RSAKey

CLIENT = "retrier"
ADA = {"sub": "ada-1", "email": "ada@example.com", "roles": ["retrier-admins"]}


def make_key(algorithm: str, kid: str) -> Key:
    """Return a new key for an algorithm."""
    more: KeyParameters = {"kid": kid, "alg": algorithm, "use": "sig"}
    if algorithm.startswith("ES"):
        return ECKey.generate_key("P-256", more)
    if algorithm.startswith("Ed"):
        return OKPKey.generate_key("Ed25519", more)
    return RSAKey.generate_key(2048, more)


_KEPT: dict[tuple[str, int], Key] = {}


def kept_key(algorithm: str, number: int) -> Key:
    """Return a key that all tests of a process share: making one takes a tenth of a second."""
    if (algorithm, number) not in _KEPT:
        _KEPT[algorithm, number] = make_key(algorithm, f"{algorithm}-{number}")
    return _KEPT[algorithm, number]


@dataclass(slots=True, eq=False)
class FakeProvider:
    """What it says, and what it was asked. `person` are the claims of whoever logs in next.

    `says` is what its metadata holds otherwise, `lies` what it answers for a code. `pages` counts requests by path. `asks` shows a page with a button before it sends people back.
    """

    issuer: str = ""
    person: Mapping[str, object] = field(default_factory=lambda: dict(ADA))
    userinfo: Mapping[str, object] = field(default_factory=dict)
    algorithm: str = "RS256"
    audience: object = CLIENT
    now: float | None = None
    key: Key = field(default_factory=lambda: kept_key("RS256", 0))
    published: list[dict[str, Any]] | None = None
    says: dict[str, object] = field(default_factory=dict)
    lies: dict[str, object] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)
    is_broken: bool = False
    asks: bool = False
    gives_refresh: bool = False
    approved: bool = True
    lifetime: int = 300
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _devices: dict[str, str] = field(default_factory=dict)

    def rotate(self, number: int = 1) -> None:
        """Sign with another key from now on, and publish only that one."""
        self.key = kept_key(self.algorithm, number)

    def sign(self, *, key: Key | None = None, algorithm: str = "", **claims: object) -> str:
        """Return an access token. A claim that is None is left out."""
        used = key or self.key
        alg = algorithm or self.algorithm
        now = int(time.time() if self.now is None else self.now)
        told = {
            "iss": self.issuer,
            "aud": self.audience,
            "iat": now,
            "exp": now + self.lifetime,
            **self.person,
            **claims,
        }
        header = {"alg": alg, "kid": used.kid, "typ": "JWT"}
        kept = {name: value for name, value in told.items() if value is not None}
        return jwt.encode(header, kept, used, algorithms=[alg])

    def answer(self, path: str, asked: Mapping[str, str]) -> tuple[int, object, str]:
        """Return status, content and, of a redirect, where it goes."""
        self.pages[path] = self.pages.get(path, 0) + 1
        if self.is_broken:
            return 500, {"error": "server_error"}, ""
        if path == "/authorize":
            return self._authorize(asked)
        pages = {
            "/.well-known/openid-configuration": self._metadata,
            "/keys": self._keys,
            "/userinfo": lambda: {"sub": self.person["sub"], **self.userinfo},
            "/device": self._begin_device,
        }
        if path == "/token":
            return (*self._token(asked), "")
        return (200, pages[path](), "") if path in pages else (404, {"error": "not_found"}, "")

    def _authorize(self, asked: Mapping[str, str]) -> tuple[int, str, str]:
        if not self.asks or "yes" in asked:
            return 302, "", self._send_back(asked)
        return 200, f'<a href="/authorize?{urlencode({**asked, "yes": "1"})}">I am Ada</a>', ""

    def _keys(self) -> dict[str, object]:
        own = [self.key.as_dict(private=False)]
        return {"keys": own if self.published is None else self.published}

    def _begin_device(self) -> dict[str, object]:
        code = token_urlsafe(16)
        self._devices[code] = "waits"
        return {
            "device_code": code,
            "user_code": "ABCD-EFGH",
            "verification_uri": f"{self.issuer}/activate",
            "expires_in": 600,
            "interval": 1,
        }

    def _metadata(self) -> dict[str, object]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "device_authorization_endpoint": f"{self.issuer}/device",
            "jwks_uri": f"{self.issuer}/keys",
            **self.says,
        }

    def _send_back(self, asked: Mapping[str, str]) -> str:
        code = token_urlsafe(16)
        self._codes[code] = dict(asked)
        told = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(told)}"

    def _token(self, asked: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        match asked.get("grant_type"):
            case "authorization_code":
                begun = self._codes.pop(asked["code"], None)
                if begun is None or not _proves(asked, begun):
                    return 400, {"error": "invalid_grant", "error_description": "no such code"}
                return 200, {**self._tokens(nonce=begun["nonce"]), **self.lies}
            case "refresh_token" if asked["refresh_token"] == "refresh-me":
                return 200, self._tokens()
            case "urn:ietf:params:oauth:grant-type:device_code":
                if asked["device_code"] not in self._devices:
                    return 400, {"error": "expired_token"}
                if not self.approved:
                    self.approved = True
                    return 400, {"error": "authorization_pending"}
                return 200, self._tokens()
            case _:
                return 400, {"error": "unsupported_grant_type"}

    def _tokens(self, nonce: str | None = None) -> dict[str, object]:
        told: dict[str, object] = {
            "token_type": "Bearer",
            "access_token": self.sign(),
            "expires_in": self.lifetime,
            "id_token": self.sign(nonce=nonce, at_hash="x", aud=CLIENT),
        }
        return told | ({"refresh_token": "refresh-me"} if self.gives_refresh else {})


def _proves(asked: Mapping[str, str], begun: Mapping[str, str]) -> bool:
    """Say whether who has the code is who began: by PKCE, and by the address to return to."""
    digest = sha256(asked.get("code_verifier", "").encode()).digest()
    challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
    same_address = asked.get("redirect_uri") == begun["redirect_uri"]
    return begun["code_challenge"] == challenge and same_address


def signed_with_public_key(claims: Mapping[str, object], key: Key) -> str:
    """Return a token whose signature takes the public key for a secret, which everybody knows."""
    assert isinstance(key, RSAKey)
    text = ".".join(map(_encoded, ({"alg": "HS256", "kid": key.kid}, claims)))
    digest = hmac.digest(key.as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def unsigned(claims: Mapping[str, object], kid: str) -> str:
    """Return a token that says of itself that nobody has signed it."""
    parts = ({"alg": "none", "kid": kid}, claims)
    return ".".join([*(_encoded(each) for each in parts), ""])


def _encoded(part: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@contextmanager
def running_provider(port: int = 0) -> Iterator[FakeProvider]:
    """Run one on a port of loopback."""
    provider = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            self._answer(_single(parse_qs(self.rfile.read(size).decode())))

        def _answer(self, form: Mapping[str, str]) -> None:
            parts = urlsplit(self.path)
            asked = {**_single(parse_qs(parts.query)), **form}
            status, content, to = provider.answer(parts.path, asked)
            is_page = isinstance(content, str)
            body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if is_page else "application/json")
            self.send_header("Content-Length", str(len(body)))
            if to:
                self.send_header("Location", to)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _single(fields: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: values[0] for name, values in fields.items()}
