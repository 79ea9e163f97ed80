"""What a provider of log-ins says of somebody, by its claims, and what that gives them here."""

from collections.abc import Mapping

from retrier.domain.access import AccessRole, QueuePatterns, is_pattern, role_of
from retrier.domain.values import dataclass

Claims = Mapping[str, object]

_SHOWN = 5
"""Values of a claim that whoever has them is shown."""
_OF_ID_TOKENS = ("at_hash", "c_hash")
"""Claims that no access token has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcRules:
    """A provider, what we are called there, and which of its claims says who may what.

    `audience` is whom a bearer token is meant for. Without `queues_claim` everybody may act on all
    queues.
    """

    issuer: str
    client_id: str
    client_secret: str = ""
    audience: str = ""
    name_claim: str = "email"
    roles_claim: str = "roles"
    roles: tuple[tuple[AccessRole, tuple[str, ...]], ...] = ()
    queues_claim: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")

    @property
    def fingerprint(self) -> str:
        """What a session depends on: it is over as soon as any of this is set otherwise."""
        return repr((self.issuer, self.client_id, self.roles_claim, self.roles, self.queues_claim))


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who has logged in: an unchanging name of them, and the one that is shown."""

    subject: str
    name: str
    role: AccessRole
    queues: QueuePatterns | None = None


@dataclass(frozen=True, slots=True)
class NoRole:
    """Somebody whom the provider knows, and who may nothing here; `text` says why, for people."""

    text: str


def read_person(claims: Claims, rules: OidcRules) -> Person | NoRole:
    """Return who it is, and what they may."""
    name, held = _name(claims, rules.name_claim), texts_of(find_claim(claims, rules.roles_claim))
    role = role_of(held, rules.roles)
    if role is None:
        return NoRole(_why_no_role(name, rules.roles_claim, held))
    queues = None
    if rules.queues_claim:
        # A claim that is missing is no right to all queues.
        named = texts_of(find_claim(claims, rules.queues_claim))
        queues = tuple(each for each in named if is_pattern(each))
    return Person(
        subject=f"{rules.issuer} {claims.get('sub', '')}", name=name, role=role, queues=queues
    )


def find_claim(claims: Claims, path: str) -> object | None:
    """Return a claim: by its exact name, else by a path of names with dots between them.

    Names hold dots themselves, as in `https://example.com/roles`: the longest name wins.
    """
    if path in claims:
        return claims[path]
    words = path.split(".")
    for count in range(len(words) - 1, 0, -1):
        inner = claims.get(".".join(words[:count]))
        if isinstance(inner, Mapping):
            found = find_claim(inner, ".".join(words[count:]))
            if found is not None:
                return found
    return None


def texts_of(value: object) -> tuple[str, ...]:
    """Return the texts of a claim, which is one text or a list."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(each for each in value if isinstance(each, str))
    return ()


def is_id_token(claims: Claims) -> bool:
    """Say whether these are the claims of an ID token: it tells who logged in, and lets nobody in."""
    return claims.get("typ") == "ID" or any(each in claims for each in _OF_ID_TOKENS)


def _name(claims: Claims, claim: str) -> str:
    """Return the name to show. An address that nobody has confirmed may be that of anybody else."""
    unconfirmed = claim == "email" and claims.get("email_verified") in (False, "false")
    named = None if unconfirmed else find_claim(claims, claim)
    for value in (named, claims.get("sub")):
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _why_no_role(name: str, claim: str, held: tuple[str, ...]) -> str:
    more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    has = f"it holds {', '.join(held[:_SHOWN])}{more}, and none of these" if held else "it is empty"
    if held:
        has += " gives a role"
    return (
        f"{name or 'Somebody'} is known to the provider, but has no role here. "
        f"Looked for: the claim {claim}; {has}."
    )
