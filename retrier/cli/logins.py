"""Tokens that `retrier login` keeps, one for each service, in a file that nobody else may read."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from retrier.cli.api_client import Late
from retrier.clock import Clock
from retrier.domain.hosts import is_loopback
from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError, RequestRefused, ServiceUnavailable
from retrier.private_files import find_open_to_others, write_private_file

if TYPE_CHECKING:
    import httpx
else:
    httpx = Late("httpx")

_SPARE = 30
"""Seconds before its end after which a token is renewed."""
_OK = 200
_ODD = "is not as `retrier login` writes it"
_AGAIN = "Log in again: `retrier login`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A token, until when it holds (seconds since 1970), and how another one is had for it."""

    token: str
    ends: float
    renews_with: str
    token_endpoint: str
    client_id: str


class Logins:
    """The file. Another service is never sent the token of this one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        config = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
        self.file = Path(config) / "retrier" / "logins.json"

    def find(self, url: str) -> Login | None:
        """Return the log-in at a service. Raises ConfigurationError."""
        told = self._read().get(url)
        if told is None:
            return None
        try:
            return Login(
                token=str(told["token"]),
                ends=float(str(told["ends"])),
                renews_with=str(told["renews_with"]),
                token_endpoint=str(told["token_endpoint"]),
                client_id=str(told["client_id"]),
            )
        except (LookupError, TypeError, ValueError):
            raise self._wrong(_ODD) from None

    def keep(self, url: str, login: Login | None) -> None:
        """Keep a log-in, or forget it. Raises ConfigurationError."""
        others = {each: told for each, told in self._read().items() if each != url}
        kept = others if login is None else {**others, url: asdict(login)}
        try:
            write_private_file(self.file, json.dumps(kept, indent=1))
        except OSError as error:
            raise self._wrong(f"cannot be written: {error.strerror}") from error

    def _read(self) -> dict[str, dict[str, object]]:
        try:
            found = json.loads(self.file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            raise self._wrong(f"cannot be read: {error}") from error
        if self.file in find_open_to_others(self.file):
            raise self._wrong("can be read by others: whoever did may use its tokens. chmod 600 it")
        if not isinstance(found, dict):
            raise self._wrong(_ODD)
        return found

    def _wrong(self, what: str) -> ConfigurationError:
        return ConfigurationError([f"{self.file} {what}"])


def login_of(told: Mapping[str, object], before: Login, now: float) -> Login:
    """Return what a provider answered as a log-in. Raises RequestRefused if it has no token."""
    token, ends, renews = (
        told.get("access_token"),
        told.get("expires_in"),
        told.get("refresh_token"),
    )
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise RequestRefused("The provider sent no access token.")
    return Login(
        token=token,
        ends=now + (float(ends) if isinstance(ends, int | float) else 300.0),
        renews_with=renews if isinstance(renews, str) else before.renews_with,
        token_endpoint=before.token_endpoint,
        client_id=before.client_id,
    )


def is_due(login: Login, clock: Clock) -> bool:
    """Say whether a token has run out, or is about to."""
    return clock.now().timestamp() > login.ends - _SPARE


def renew(http: "httpx.Client", login: Login, clock: Clock) -> Login:
    """Return a token in place of one that has run out. Raises RequestRefused, ServiceUnavailable."""
    if not login.renews_with:
        raise RequestRefused(f"The log-in has run out. {_AGAIN}")
    form = {
        "grant_type": "refresh_token",
        "refresh_token": login.renews_with,
        "client_id": login.client_id,
    }
    status, told = ask(http, login.token_endpoint, form)
    if status != _OK:
        raise RequestRefused(f"The log-in is over: {words_of(told)}. {_AGAIN}")
    return login_of(told, login, clock.now().timestamp())


def ask(
    http: "httpx.Client", address: str, form: Mapping[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    """Return status and JSON object of a provider's answer. Raises ServiceUnavailable."""
    host = check_address(address)
    try:
        answer = http.get(address) if form is None else http.post(address, data=form)
    except httpx.HTTPError as error:
        raise ServiceUnavailable(f"Cannot reach the provider {host}: {error}") from error
    try:
        told = answer.json()
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ServiceUnavailable(f"The provider {host} answered with something that is no JSON.")
    return answer.status_code, told


def check_address(address: str) -> str:
    """Return the host of an address of a provider. Raises RequestRefused if others could read along."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return host
    raise RequestRefused(f"The provider's address does not begin with https://: {address}")


def words_of(told: Mapping[str, object]) -> str:
    """Return what a provider says is wrong."""
    return str(told.get("error_description") or told.get("error") or "it gives no reason")


def logins_of_this_person() -> Logins:
    """Return the log-ins of who runs this."""
    return Logins(os.environ)
