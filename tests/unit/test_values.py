"""Values that are frozen for the type checker are as good as frozen ones."""

from dataclasses import dataclass, replace

from retrier.domain.values import value


@value(frozen=True, slots=True, kw_only=True)
class Place:
    """Frozen for the type checker alone."""

    queue: str
    endpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenPlace:
    """The same, frozen by Python."""

    queue: str
    endpoint: str | None = None


def test_the_type_checker_refuses_an_assignment() -> None:
    place = Place(queue="orders")
    # It would call an ignore that hides nothing an error.
    place.queue = "billing"  # type: ignore[misc]


def test_equal_values_are_one_key() -> None:
    assert len({Place(queue="orders"), Place(queue="orders"), Place(queue="billing")}) == 2


def test_it_is_hashed_as_a_frozen_one() -> None:
    assert hash(Place(queue="orders")) == hash(FrozenPlace(queue="orders"))


def test_it_is_replaced_and_shown_as_a_frozen_one() -> None:
    changed = replace(Place(queue="orders"), endpoint="Sales")

    assert repr(changed) == repr(FrozenPlace(queue="orders", endpoint="Sales")).replace(
        "FrozenPlace", "Place"
    )


def test_it_has_no_other_attributes() -> None:
    assert not hasattr(Place(queue="orders"), "__dict__")
