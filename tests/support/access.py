"""Tokens of people and programs with each role, for tests of who may what."""

from collections.abc import Mapping

from retrier.domain.access import AccessRole, AccessRules, AccessToken, hash_secret, make_token

OWN = "orders.eu"
"""A queue to which `OF_ORDERS` has a right."""
OTHER = "billing"
"""A queue to which it has none."""


def token_of(role: AccessRole, *, is_narrow: bool = False) -> str:
    """Return the token of a role, always the same one."""
    seed = f"{role}{is_narrow}".encode()
    return make_token(lambda count: (seed * count)[:count])


def rules(*, reads_own_only: bool = False) -> AccessRules:
    """Return rules with a token of each role, for all queues and for `orders*`."""
    tokens = (
        AccessToken(
            name=f"{role}-{'orders' if is_narrow else 'all'}".replace("+", "-"),
            sha256=hash_secret(token_of(role, is_narrow=is_narrow)),
            role=role,
            queues=("orders*",) if is_narrow else None,
        )
        for role in AccessRole
        for is_narrow in (False, True)
    )
    return AccessRules(tokens=tuple(tokens), reads_own_only=reads_own_only)


def bearer(role: AccessRole, *, is_narrow: bool = False) -> Mapping[str, str]:
    """Return the header with the token of a role."""
    return {"Authorization": f"Bearer {token_of(role, is_narrow=is_narrow)}"}
