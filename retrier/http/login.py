"""What the faces need of a provider of log-ins, whatever it speaks; `retrier/http/oidc.py` is one."""

from typing import Protocol

from retrier.domain.oidc import Person
from retrier.http.access import BearerReader
from retrier.store.sessions import LoginAttempt


class Away(Exception):
    """The provider cannot be used now; the words say why, for people."""


class LoginProvider(BearerReader, Protocol):
    """A provider of log-ins. Everything may be called from any thread, and may take seconds."""

    @property
    def host(self) -> str:
        """Where people log in, as they are told."""
        ...

    @property
    def issuer(self) -> str:
        """What the provider calls itself."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it did not answer when it was asked last; None if it did."""
        ...

    @property
    def seal(self) -> str:
        """What sessions depend on: they are over as soon as it is another."""
        ...

    def describe(self) -> tuple[bool, str]:
        """Say how it is, for health. Nobody is unready for it: tokens of ours go on."""
        ...

    def look(self) -> None:
        """Ask it if it was away, or if what it said is old."""
        ...

    def begin(self, redirect_uri: str, back: str) -> tuple[str, str, LoginAttempt]:
        """Return where a browser is sent, the state that comes back, and what to keep meanwhile.

        Raises Away.
        """
        ...

    def finish(self, code: str, redirect_uri: str, attempt: LoginAttempt) -> Person:
        """Return who has logged in, for the code with which they came back.

        Raises Refused, Away, and HTTPException with 403 for who has no role.
        """
        ...
