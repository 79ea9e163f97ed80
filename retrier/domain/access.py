"""Who may do what: roles, the rights of each, rights per queue, and tokens.

An `Access` is made once for each request. The gateway asks it for every act, the faces ask it for
what they show; no route decides by itself.
"""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from functools import cache
from hashlib import sha256
from typing import assert_never
from zlib import crc32

from retrier.domain.hosts import Proxies
from retrier.domain.values import dataclass


class AccessRole(StrEnum):
    """What a person or a program may do; each role may do what those before it may."""

    READER = "reader"
    CONTENT = "reader+content"
    OPERATOR = "operator"
    ADMIN = "admin"


_RANKS = {role: rank for rank, role in enumerate(AccessRole)}


class Right(StrEnum):
    """What may be done with the service; which role it takes stands in `NEEDED`."""

    READ = "read"
    READ_CONTENT = "read_content"
    RETRY = "retry"
    ARCHIVE = "archive"
    RESOLVE = "resolve"
    DECLARE_DEAD = "declare_dead"
    REVIVE = "revive"
    RELEASE = "release"
    STEER = "steer"
    COMMENT = "comment"
    ACKNOWLEDGE = "acknowledge"
    SAVE_VIEW = "save_view"
    APPROVE = "approve"
    EDIT = "edit"
    REDIRECT = "redirect"
    IMPORT = "import"
    SET_BREAKER = "set_breaker"
    RECOVER = "recover"
    SIMULATE = "simulate"
    CONFIGURE = "configure"
    TOKEN = "token"  # noqa: S105 - the act, not a token


NEEDED = {
    Right.READ: AccessRole.READER,
    Right.READ_CONTENT: AccessRole.CONTENT,
    Right.RETRY: AccessRole.OPERATOR,
    Right.ARCHIVE: AccessRole.OPERATOR,
    Right.RESOLVE: AccessRole.OPERATOR,
    Right.DECLARE_DEAD: AccessRole.OPERATOR,
    Right.REVIVE: AccessRole.OPERATOR,
    Right.RELEASE: AccessRole.OPERATOR,
    Right.STEER: AccessRole.OPERATOR,
    Right.COMMENT: AccessRole.OPERATOR,
    Right.ACKNOWLEDGE: AccessRole.OPERATOR,
    Right.SAVE_VIEW: AccessRole.OPERATOR,
    Right.APPROVE: AccessRole.OPERATOR,
    Right.EDIT: AccessRole.ADMIN,
    Right.REDIRECT: AccessRole.ADMIN,
    Right.IMPORT: AccessRole.ADMIN,
    Right.SET_BREAKER: AccessRole.ADMIN,
    Right.RECOVER: AccessRole.ADMIN,
    Right.SIMULATE: AccessRole.ADMIN,
    Right.CONFIGURE: AccessRole.ADMIN,
    Right.TOKEN: AccessRole.ADMIN,
}
"""The role that each right takes."""


class How(StrEnum):
    """How somebody showed who they are."""

    OPEN = "open"
    """Nothing was asked: the settings have no `access`."""
    TOKEN = "token"  # noqa: S105 - the kind of proof, not a token
    OIDC = "oidc"
    PROXY = "proxy"


QueuePatterns = tuple[str, ...]
"""Names of queues, in which `*` stands for any characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who asks, and what they may.

    `subject` is what the provider calls a person, always the same.
    `queues` are the queues whose messages they may act on, None for all; `reads_own_only` says that
    they see no others, either. `name` is who they are as shown; of a token it is the token's name.
    `address` is where the request came from. `session` is the id of the browser's session, if any.
    """

    name: str = ""
    subject: str = ""
    how: How = How.OPEN
    role: AccessRole = AccessRole.ADMIN
    queues: QueuePatterns | None = None
    reads_own_only: bool = False
    address: str = ""
    session: str | None = None

    def may(self, right: Right) -> bool:
        """Say whether the role is enough for an act; on which queues, `owns` says."""
        return _RANKS[self.role] >= _RANKS[NEEDED[right]]

    def owns(self, queue: str | None) -> bool:
        """Say whether messages of this queue may be acted on."""
        return self.queues is None or (queue is not None and matches_queue(self.queues, queue))

    @property
    def seen(self) -> QueuePatterns | None:
        """The queues whose messages are seen; None for all."""
        return self.queues if self.reads_own_only else None

    def why_not(self, right: Right) -> str | None:
        """Return why the role does not allow an act, for people; None if it does."""
        if self.may(right):
            return None
        who = self.shown[0].lower() + self.shown[1:] if self.how is How.TOKEN else self.shown
        return f"This takes the role {NEEDED[right]}, and {who} has the role {self.role}."

    def why_not_on(self, queue: str | None) -> str | None:
        """Return why messages of a queue may not be acted on, for people; None if they may."""
        if self.owns(queue):
            return None
        # Who sees own queues only is told the names of no others.
        is_told = bool(queue) and not self.reads_own_only
        place = f"the queue {queue}" if is_told else "the queue of this"
        return f"{self.shown} has no right to {place}, only to {self.shown_queues}."

    @property
    def shown(self) -> str:
        """Who it is, for people: `the token deploy`, or a name."""
        return f"The token {self.name}" if self.how is How.TOKEN else self.name or "Nobody"

    @property
    def identity(self) -> str:
        """Who it is, to be compared: a token by its name, a person by what their provider calls them.

        People may change the name that is shown, and not that. Who comes through a proxy has a name
        only. Empty if nobody is asked who they are. Two tokens of one person are two identities.
        """
        match self.how:
            case How.OPEN:
                return ""
            case How.TOKEN:
                return f"token {self.name.strip()}"
            case How.OIDC:
                return f"subject {self.subject}"
            case How.PROXY:
                return self.name.strip().casefold()
            case _ as never:
                assert_never(never)

    @property
    def shown_queues(self) -> str:
        """The queues for people."""
        if self.queues is None:
            return "all queues"
        return ", ".join(self.queues) or "no queue"


OPEN = Access()
"""Without `access` in the settings whoever reaches the address may do everything."""

HIDDEN = "(hidden: reading it takes the role reader+content)"
"""What stands in place of a value that a reader may not read."""

NOT_YOURS = "it failed on a queue to which who asks has no right"
"""Why an operation leaves a message alone that is not of the asker's queues."""


def matches_queue(patterns: QueuePatterns, queue: str) -> bool:
    """Say whether one of the patterns matches the whole name. Case counts, and only `*` is special."""
    return any(_compiled(each).fullmatch(queue) for each in patterns)


def covers(patterns: QueuePatterns, others: QueuePatterns) -> bool:
    """Say whether what is like the others is like these as well, as far as can be told simply."""
    return all(matches_queue(patterns, each.replace("*", "\0")) for each in others)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


_MARK = "rtr_"
_SECRET_BYTES = 32
_CHECK_DIGITS = 8
_TOKEN = re.compile(rf"{_MARK}[0-9a-f]{{{2 * _SECRET_BYTES + _CHECK_DIGITS}}}")


def make_token(random: Callable[[int], bytes]) -> str:
    """Return a new token: a mark, 32 random bytes, and a checksum of them, in hexadecimal digits.

    Scanners of secrets know it by its mark and can tell a real one by its checksum.
    """
    secret = random(_SECRET_BYTES).hex()
    return f"{_MARK}{secret}{_check(secret)}"


def is_token(text: str) -> bool:
    """Say whether a text has the form of a token and its checksum: what is mistyped has not."""
    if not _TOKEN.fullmatch(text):
        return False
    secret = text.removeprefix(_MARK)
    return secret[-_CHECK_DIGITS:] == _check(secret[:-_CHECK_DIGITS])


def _check(secret: str) -> str:
    return f"{crc32(secret.encode()):08x}"


def hash_secret(secret: str) -> str:
    """Return what is kept of a token or a session: its SHA-256. It is random, so no salt is needed."""
    return sha256(secret.encode()).hexdigest()


LONGEST_TOKEN_NAME = 100
"""Characters."""
_TOKEN_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_TOKEN_NAME}}}")
NO_TOKEN_NAME = (
    f"a token has a name of 1 to {LONGEST_TOKEN_NAME} letters, digits, dots, dashes and underscores"
)
_LONGEST_PATTERN = 255
NO_PATTERN = f"a queue is a name, or a pattern with *, of 1 to {_LONGEST_PATTERN} bytes"


def is_token_name(name: str) -> bool:
    """Say whether a token may be called so."""
    return _TOKEN_NAME.fullmatch(name) is not None


def is_pattern(text: str) -> bool:
    """Say whether a text names queues: it is their name, or a pattern of it."""
    return 1 <= len(text.encode(errors="replace")) <= _LONGEST_PATTERN and "\0" not in text


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token as it is kept: never the token itself. `queues` None is all; `expires` None is never."""

    name: str
    sha256: str
    role: AccessRole
    queues: QueuePatterns | None = None
    expires: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Say whether it has not run out."""
        return self.expires is None or now < self.expires


def role_of(
    held: Iterable[str], roles: Iterable[tuple[AccessRole, Iterable[str]]]
) -> AccessRole | None:
    """Return the highest role that one of the held names gives; None if none does.

    Names are compared exactly: a pattern once let strangers in elsewhere.
    """
    names = set(held)
    found = [role for role, known in roles if names.intersection(known)]
    return max(found, key=lambda role: _RANKS[role]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRules:
    """A proxy that logs people in: where it is, in which headers it says who, and what they may.

    `roles` has the groups of each role. The headers count from its addresses only.
    """

    proxies: Proxies
    user_header: str
    groups_header: str
    roles: tuple[tuple[AccessRole, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """Who is let in: tokens of the settings, and a proxy that logs people in."""

    tokens: tuple[AccessToken, ...] = ()
    proxy: ProxyRules | None = None
    reads_own_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """How often an address was refused for a reason since that was told last."""

    address: str
    reason: str
    count: int
    who: str = ""
