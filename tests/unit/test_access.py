"""Roles, patterns of queues, and tokens, as values."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.access import (
    NEEDED,
    OPEN,
    Access,
    AccessRole,
    How,
    Right,
    covers,
    hash_secret,
    is_pattern,
    is_token,
    is_token_name,
    make_token,
    matches_queue,
    role_of,
)

RANDOM = b"\x5a" * 32


def test_every_right_takes_a_role() -> None:
    assert NEEDED.keys() == set(Right)


def test_a_role_may_what_the_ones_before_it_may() -> None:
    may = [{each for each in Right if Access(role=role).may(each)} for role in AccessRole]

    assert all(less < more for less, more in pairwise(may))
    assert may[0] == {Right.READ}
    assert may[-1] == set(Right)


def test_where_nobody_is_asked_everything_is_allowed() -> None:
    assert all(OPEN.may(right) for right in Right)
    assert OPEN.owns("anything")


def test_a_refusal_says_which_role_it_takes() -> None:
    asks = Access(name="ci", how=How.TOKEN, role=AccessRole.READER)

    assert (
        asks.why_not(Right.RETRY)
        == "This takes the role operator, and the token ci has the role reader."
    )


@pytest.mark.parametrize(
    ("pattern", "queue", "expected"),
    [
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
        ("orders*", "orders.eu", True),
        ("orders*", "Orders.eu", False),
        ("*.eu", "orders.eu", True),
        ("o*s*u", "orders.eu", True),
        ("orders.eu", "ordersXeu", False),
        ("or?ers", "orders", False),
        ("[o]rders", "orders", False),
        ("", "orders", False),
        ("*", "", True),
    ],
)
def test_in_a_pattern_only_the_star_is_special(pattern: str, queue: str, expected: bool) -> None:  # noqa: FBT001
    assert matches_queue((pattern,), queue) is expected


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (("orders*",), ("orders*",), True),
        (("orders*",), ("orders.eu", "orders.us*"), True),
        (("orders.eu",), ("orders*",), False),
        (("orders*",), ("orders*", "billing"), False),
        (("*",), ("a*b",), True),
    ],
)
def test_rights_cover_other_rights(
    own: tuple[str, ...],
    others: tuple[str, ...],
    expected: bool,  # noqa: FBT001 - a case
) -> None:
    assert covers(own, others) is expected


def test_with_no_pattern_nothing_is_owned() -> None:
    asks = Access(queues=())

    assert not asks.owns("orders")
    assert not asks.owns(None)


def test_a_token_has_a_checksum() -> None:
    token = make_token(lambda count: RANDOM[:count])

    assert is_token(token)
    assert len(token) == len("rtr_") + 72


@given(st.integers(4, 75), st.sampled_from("0123456789abcdef"))
def test_a_token_with_another_digit_is_none(place: int, digit: str) -> None:
    token = make_token(lambda count: RANDOM[:count])
    changed = token[:place] + digit + token[place + 1 :]

    assert is_token(changed) is (changed == token)


def test_what_is_kept_of_a_token_is_not_the_token() -> None:
    token = make_token(lambda count: RANDOM[:count])

    assert token not in hash_secret(token)
    assert not is_token(hash_secret(token))


@pytest.mark.parametrize("name", ["", "a b", "x" * 101, "a/b", "a\n"])
def test_a_token_is_not_called(name: str) -> None:
    assert not is_token_name(name)


@pytest.mark.parametrize("text", ["", "x" * 256, "a\0"])
def test_a_pattern_is_a_name_of_a_queue(text: str) -> None:
    assert not is_pattern(text)


def test_the_highest_role_counts() -> None:
    roles = ((AccessRole.READER, ("all",)), (AccessRole.ADMIN, ("root",)))

    assert role_of(["root", "all"], roles) is AccessRole.ADMIN
    assert role_of(["all"], roles) is AccessRole.READER


@pytest.mark.parametrize("held", [[], ["ALL"], ["all "], ["al"], ["all*"], [".*"]])
def test_without_a_name_that_is_exactly_one_there_is_no_role(held: list[str]) -> None:
    assert role_of(held, ((AccessRole.READER, ("all",)),)) is None
