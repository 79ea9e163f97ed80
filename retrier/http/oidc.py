"""A provider of log-ins by OpenID Connect: found, its keys kept, its tokens read, people sent to it.

The service runs without it: what is kept of the provider is enough for tokens whose keys are known.
Whatever it answers may be forged or broken, and is looked at before it is used.
"""

import json
import warnings
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from secrets import token_urlsafe
from threading import Lock
from urllib.parse import quote, urlencode, urlsplit

import httpx
from fastapi import HTTPException
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from retrier.clock import Clock
from retrier.domain.access import Access, How
from retrier.domain.hosts import is_loopback
from retrier.domain.oidc import (
    Claims,
    NoRole,
    OidcRules,
    Person,
    find_claim,
    is_id_token,
    read_person,
)
from retrier.domain.values import dataclass
from retrier.http.access import Refused
from retrier.http.login import Away
from retrier.http.parts import LONGEST_NAME, one_line
from retrier.http.problems import RETRY_AFTER
from retrier.store.sessions import LoginAttempt

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""With which tokens may be signed: with keys of which we have the public half, never `none`."""

# Its name is deprecated for `Ed25519`, and providers go on with it: nobody need be told for each.
warnings.filterwarnings("ignore", "EdDSA is deprecated")

SKEW = 60
"""Seconds by which clocks may differ."""
_TIMEOUT = httpx.Timeout(3, connect=2)
_LONGEST_ANSWER = 6.0
"""Seconds for one answer, also for one that comes byte by byte."""
_LARGEST_ANSWER = 1024 * 1024
_AGAIN = 30.0
"""Seconds from one look for an unknown key to the next at least."""
_AGAIN_IF_AWAY = 5.0
_FRESH = 3600.0
"""Seconds for which keys are used before somebody looks again, in case one was withdrawn."""
_LONGEST_SHOWN = 200
_OK, _SERVER_ERROR = 200, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    """Where the provider wants what."""

    authorization: str
    token: str
    userinfo: str
    takes_basic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the provider said last."""

    metadata: _Metadata
    keys: Sequence[tuple[str | None, str | None, Key]]
    at: float


@dataclass(slots=True)
class Provider:
    """One provider. Everything may be called from any thread, and may take seconds."""

    rules: OidcRules
    clock: Clock
    _known: _Known | None = None
    _trouble: str | None = None
    _tried: float | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def host(self) -> str:
        """Where people log in, as they are told."""
        return urlsplit(self.rules.issuer).netloc

    @property
    def issuer(self) -> str:
        """What the provider calls itself."""
        return self.rules.issuer

    @property
    def seal(self) -> str:
        """What sessions depend on: they are over as soon as it is another."""
        return sha256(self.rules.fingerprint.encode()).hexdigest()

    @property
    def trouble(self) -> str | None:
        """Why the provider did not answer when it was asked last; None if it did."""
        return self._trouble

    def describe(self) -> tuple[bool, str]:
        """Say how it is, for health. Nobody is unready for it: tokens of ours go on."""
        if self._trouble is not None:
            return True, self._trouble
        return True, "not asked yet" if self._known is None else f"{self.host} is reached"

    def look(self) -> None:
        """Ask the provider if it was away, or if what it said is old."""
        known, now = self._known, self.clock.monotonic()
        if known is None or self._trouble is not None or now - known.at > _FRESH:
            with self._lock:
                self._ask_anew(_AGAIN_IF_AWAY)

    def read(self, token: str) -> Access:
        """Return who sends a bearer token.

        Raises Refused; HTTPException with 403 for who has no role, and 503 while nobody can tell.
        """
        try:
            claims = self._verify(token, self.rules.audience or self.rules.client_id)
        except Away as away:
            detail = f"This token cannot be checked: {away}"
            raise HTTPException(503, detail, {"Retry-After": str(RETRY_AFTER)}) from None
        if is_id_token(claims):
            raise Refused("This is an ID token; what lets anybody in is an access token.")
        person = self._person(claims)
        return Access(
            name=person.name,
            subject=person.subject,
            how=How.OIDC,
            role=person.role,
            queues=person.queues,
        )

    def begin(self, redirect_uri: str, back: str) -> tuple[str, str, LoginAttempt]:
        """Return where a browser is sent, the state that comes back, and what to keep meanwhile.

        Raises Away.
        """
        state = token_urlsafe(32)
        attempt = LoginAttempt(nonce=token_urlsafe(32), verifier=token_urlsafe(48), back=back)
        challenge = urlsafe_b64encode(sha256(attempt.verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": self.rules.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self.rules.scopes),
            "state": state,
            "nonce": attempt.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        address = self._need().metadata.authorization
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", state, attempt

    def finish(self, code: str, redirect_uri: str, attempt: LoginAttempt) -> Person:
        """Return who has logged in, for the code with which they came back.

        Raises Refused, Away, and HTTPException with 403 for who has no role.
        """
        told = self._exchange(code, redirect_uri, attempt)
        id_token = told.get("id_token")
        if not isinstance(id_token, str):
            raise Refused("The provider sent no ID token: has its scope `openid`?")
        claims = self._verify(id_token, self.rules.client_id)
        self._check_login(claims, attempt)
        if find_missing(claims, self.rules):
            claims = self._with_userinfo(claims, told.get("access_token"))
        return self._person(claims)

    def _check_login(self, claims: Claims, attempt: LoginAttempt) -> None:
        if claims.get("nonce") != attempt.nonce:
            raise Refused("The ID token belongs to another log-in.")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise Refused("The ID token names nobody.")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self.rules.client_id) != self.rules.client_id:
            raise Refused("The ID token was made for another client.")

    def _person(self, claims: Claims) -> Person:
        match read_person(claims, self.rules):
            case NoRole(text):
                raise HTTPException(403, one_line(text, 4 * _LONGEST_SHOWN))
            case found:
                name = one_line(found.name, LONGEST_NAME)
                return Person(
                    subject=found.subject, name=name, role=found.role, queues=found.queues
                )

    def _verify(self, token: str, audience: str) -> Claims:
        """Return the claims of a token that the provider signed for us. Raises Refused, Away."""
        header = _header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise Refused("This token is signed in a way that is not allowed here.")
        key = self._find_key(kid if isinstance(kid, str) else None, str(algorithm))
        try:
            claims = jwt.decode(token, key, algorithms=[str(algorithm)]).claims
            jwt.JWTClaimsRegistry(
                now=lambda: int(self.clock.now().timestamp()),
                leeway=SKEW,
                iss={"essential": True, "value": self.rules.issuer},
                aud={"essential": True, "value": audience},
                exp={"essential": True},
                iat={"essential": True},
            ).validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            raise Refused(f"This token does not hold: {_words(error)}.") from None
        return claims

    def _find_key(self, kid: str | None, algorithm: str) -> Key:
        key = _pick(self._need().keys, kid, algorithm)
        if key is None:
            with self._lock:
                self._ask_anew(_AGAIN)
            key = _pick(self._known.keys if self._known else (), kid, algorithm)
        if key is None:
            raise Refused("This token is signed with a key that the provider does not publish.")
        return key

    def _need(self) -> _Known:
        """Return what the provider said; ask it, if it never did. Raises Away."""
        if self._known is None:
            # Whoever comes meanwhile waits for the one that asks, and does not ask again.
            with self._lock:
                if self._known is None:
                    self._ask_anew(_AGAIN_IF_AWAY)
        if self._known is None:
            raise Away(self._trouble or "The provider was not reached yet.")
        return self._known

    def _ask_anew(self, pause: float) -> None:
        """Ask the provider, unless somebody has just done so; note what is wrong with it."""
        now = self.clock.monotonic()
        if self._tried is not None and now - self._tried < pause:
            return
        self._tried = now
        try:
            with self._client() as http:
                self._known = self._discover(http, now)
        except Away as away:
            self._trouble = str(away)
        else:
            self._trouble = None

    def _client(self) -> httpx.Client:
        # A proxy that the environment names is not for addresses of this machine.
        is_local = is_loopback(urlsplit(self.rules.issuer).hostname or "")
        return httpx.Client(timeout=_TIMEOUT, trust_env=not is_local)

    def _discover(self, http: httpx.Client, now: float) -> _Known:
        address = f"{self.rules.issuer.rstrip('/')}/.well-known/openid-configuration"
        told = self._call(http, "GET", address)
        issuer = told.get("issuer")
        if issuer != self.rules.issuer:
            shown = one_line(str(issuer), _LONGEST_SHOWN)
            raise Away(f"{self.host} calls itself {shown}, and not {self.rules.issuer}.")
        methods = told.get("token_endpoint_auth_methods_supported")
        metadata = _Metadata(
            authorization=self._address(told, "authorization_endpoint"),
            token=self._address(told, "token_endpoint"),
            userinfo=self._address(told, "userinfo_endpoint", needed=False),
            takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        )
        keys = self._call(http, "GET", self._address(told, "jwks_uri")).get("keys")
        found = list(_keys_of(keys if isinstance(keys, list) else []))
        if not found:
            raise Away(f"{self.host} publishes no key that can be used.")
        return _Known(metadata=metadata, keys=found, at=now)

    def _address(self, told: Mapping[str, object], name: str, *, needed: bool = True) -> str:
        """Return an address of the provider's, which nobody between may read or change."""
        address = told.get(name)
        if isinstance(address, str) and _is_safe(address):
            return address
        if needed:
            raise Away(f"{self.host} names no {name} that begins with https://.")
        return ""

    def _exchange(self, code: str, redirect_uri: str, attempt: LoginAttempt) -> Claims:
        metadata, rules = self._need().metadata, self.rules
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        auth = None
        if rules.client_secret and metadata.takes_basic:
            auth = httpx.BasicAuth(quote(rules.client_id, ""), quote(rules.client_secret, ""))
        else:
            form["client_id"] = rules.client_id
            if rules.client_secret:
                form["client_secret"] = rules.client_secret
        with self._client() as http:
            return self._call(http, "POST", metadata.token, form=form, auth=auth)

    def _with_userinfo(self, claims: Claims, access_token: object) -> Claims:
        """Add what the provider tells of the same person only when it is asked."""
        address = self._need().metadata.userinfo
        if not address or not isinstance(access_token, str):
            return claims
        try:
            with self._client() as http:
                told = self._call(http, "GET", address, bearer=access_token)
        except Away:
            # Who it is, the ID token has proved; what they may is then found in it, or not at all.
            return claims
        return {**told, **claims} if told.get("sub") == claims["sub"] else claims

    def _call(
        self,
        http: httpx.Client,
        method: str,
        address: str,
        *,
        form: Mapping[str, str] | None = None,
        auth: httpx.Auth | None = None,
        bearer: str = "",
    ) -> dict[str, object]:
        """Return the JSON object of an answer. Raises Away, and Refused for what it refuses."""
        headers = {"Accept": "application/json"}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        try:
            with http.stream(method, address, data=form, auth=auth, headers=headers) as answer:
                content = self._content(answer)
                status = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Away(f"{self.host} cannot be reached: {_words(error)}.") from None
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            told = None
        if status >= _SERVER_ERROR or (status != _OK and form is None):
            raise Away(f"{self.host} answered with status {status}.")
        if not isinstance(told, dict):
            raise Away(f"{self.host} answered with something that is no JSON object.")
        if status != _OK:
            why = one_line(str(told.get("error_description") or told.get("error")), _LONGEST_SHOWN)
            raise Refused(f"The provider refuses this log-in: {why}.")
        return told

    def _content(self, answer: httpx.Response) -> bytes:
        end = self.clock.monotonic() + _LONGEST_ANSWER
        content = bytearray()
        for some in answer.iter_bytes():
            content += some
            if len(content) > _LARGEST_ANSWER or self.clock.monotonic() > end:
                raise Away(f"{self.host} answers too slowly, or too much.")
        return bytes(content)


def find_missing(claims: Claims, rules: OidcRules) -> bool:
    """Say whether a claim that we look for is not in the ID token."""
    wanted = [rules.roles_claim, *([rules.queues_claim] if rules.queues_claim else [])]
    return any(find_claim(claims, each) is None for each in wanted)


def _is_safe(address: str) -> bool:
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    is_local = parts.scheme == "http" and is_loopback(host)
    return bool(host) and (parts.scheme == "https" or is_local)


def _header(token: str) -> dict[str, object]:
    """Return the header of a token, which nobody has vouched for yet. Raises Refused."""
    first = token.partition(".")[0]
    try:
        found = json.loads(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused("This is no token: its header cannot be read.")
    return found


def _keys_of(told: Sequence[object]) -> Sequence[tuple[str | None, str | None, Key]]:
    """Return the keys that sign, with id and algorithm; those of no kind that we use are left out."""
    found = []
    for each in told:
        if not isinstance(each, dict) or each.get("kty") == "oct" or each.get("use") == "enc":
            continue
        try:
            key = JWKRegistry.import_key(each)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        found.append((each.get("kid"), each.get("alg"), key))
    return found


_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def _pick(
    keys: Sequence[tuple[str | None, str | None, Key]], kid: str | None, algorithm: str
) -> Key | None:
    """Return the key of an id; a token without an id is read only if there is one key for it."""
    fitting = [
        (own, key)
        for own, wanted, key in keys
        if key.key_type == _KINDS[algorithm[:2]] and wanted in (None, algorithm)
    ]
    if kid is None:
        return fitting[0][1] if len(fitting) == 1 else None
    return next((key for own, key in fitting if own == kid), None)


def _words(error: Exception) -> str:
    """Return what an error says, in one line and without what it is about."""
    return one_line(str(error) or type(error).__name__, _LONGEST_SHOWN).rstrip(".")
