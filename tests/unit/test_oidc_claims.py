"""What the claims of somebody give them here."""

from collections.abc import Mapping

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.oidc import NoRole, OidcRules, Person, find_claim, read_person

ROLES = ((AccessRole.OPERATOR, ("ops",)), (AccessRole.ADMIN, ("admins",)))


def rules(**more: str) -> OidcRules:
    return OidcRules(issuer="https://id", client_id="retrier", roles=ROLES, **more)  # type: ignore[arg-type]


def person_of(claims: Mapping[str, object], **more: str) -> Person:
    found = read_person({"sub": "1", "email": "ada@x", **claims}, rules(**more))
    assert isinstance(found, Person), found
    return found


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("roles", {"roles": ["ops"]}),
        ("realm_access.roles", {"realm_access": {"roles": ["ops"]}}),
        ("cognito:groups", {"cognito:groups": ["ops"]}),
        ("https://x.example/roles", {"https://x.example/roles": ["ops"]}),
        ("resource_access.my.client.roles", {"resource_access": {"my.client": {"roles": ["ops"]}}}),
    ],
)
def test_a_claim_is_found_by_its_name_or_its_path(path: str, claims: dict[str, object]) -> None:
    assert find_claim(claims, path) == ["ops"]


def test_the_exact_name_of_a_claim_goes_before_a_path() -> None:
    assert find_claim({"a.b": "exact", "a": {"b": "path"}}, "a.b") == "exact"


def test_the_highest_role_counts() -> None:
    assert person_of({"roles": ["ops", "admins"]}).role is AccessRole.ADMIN


def test_one_role_may_be_a_text() -> None:
    assert person_of({"roles": "ops"}).role is AccessRole.OPERATOR


@pytest.mark.parametrize(
    "held", [["OPS"], ["ops "], ["xops"], ["*"], "ops admins", {"ops": True}, [["ops"]], None, True]
)
def test_what_is_not_exactly_a_role_gives_none(held: object) -> None:
    assert isinstance(read_person({"sub": "1", "roles": held}, rules()), NoRole)


def test_who_has_no_role_is_told_which_claim_was_looked_for() -> None:
    found = read_person({"sub": "1", "email": "ada@x", "roles": ["guests"]}, rules())

    assert found == NoRole(
        "ada@x is known to the provider, but has no role here. "
        "Looked for: the claim roles; it holds guests, and none of these gives a role."
    )


def test_queues_come_from_their_claim() -> None:
    found = person_of({"roles": "ops", "queues": ["orders*"]}, queues_claim="queues")

    assert found.queues == ("orders*",)


def test_without_the_claim_of_queues_nobody_has_a_right_to_any() -> None:
    assert person_of({"roles": "ops"}, queues_claim="queues").queues == ()


def test_an_address_that_is_not_confirmed_is_nobodys_name() -> None:
    assert person_of({"roles": "ops", "email_verified": False}).name == "1"
