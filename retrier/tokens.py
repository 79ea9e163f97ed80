"""What an administrator does with tokens: the gateway's part about them."""

from datetime import timedelta
from secrets import token_bytes

from retrier.audit import audited, audited_if_refused
from retrier.domain.access import (
    AccessRole,
    AccessToken,
    QueuePatterns,
    Right,
    hash_secret,
    is_pattern,
    is_token_name,
    make_token,
)
from retrier.domain.values import dataclass
from retrier.events.event import Emit
from retrier.guard import Guard
from retrier.imports import recording
from retrier.store.engine.database import Database
from retrier.store.tokens import TokenRefusal, create_token, revoke_token


@dataclass(frozen=True, slots=True)
class Tokens:
    """Takes requests about tokens. Whoever makes one has a right to all queues."""

    db: Database
    emit: Emit
    guard: Guard
    given: frozenset[str] | None
    """Names of tokens of the settings: in every log a name means one token. None: nobody is asked."""

    @audited("create_token")
    def create(
        self,
        name: str,
        role: AccessRole,
        queues: QueuePatterns | None,
        lasts: timedelta | None,
        who: str,
    ) -> str | TokenRefusal:
        """Make a token; return it, this once, or why not."""
        self._must()
        if self.given is None:
            return TokenRefusal.NO_ACCESS
        if not is_token_name(name):
            return TokenRefusal.NO_NAME
        if name in self.given:
            return TokenRefusal.OF_SETTINGS
        if queues is not None and not (queues and all(map(is_pattern, queues))):
            return TokenRefusal.NO_QUEUE
        secret = make_token(token_bytes)
        token = AccessToken(name=name, sha256=hash_secret(secret), role=role, queues=queues)
        with recording(self.emit):
            refusal = create_token(self.db, token, lasts, who)
        return secret if refusal is None else refusal

    @audited("revoke_token")
    def revoke(self, name: str, who: str) -> TokenRefusal | None:
        """Revoke a token, on every instance within a second; return why not, or None."""
        self._must()
        if self.given is not None and name in self.given:
            return TokenRefusal.OF_SETTINGS
        with recording(self.emit):
            return revoke_token(self.db, name, who)

    @audited_if_refused("see_tokens")
    def may_look(self) -> None:
        """Raise NotAllowed for who may not see which tokens there are."""
        self._must()

    def _must(self) -> None:
        self.guard.must(Right.TOKEN)
        self.guard.must_own_all()
