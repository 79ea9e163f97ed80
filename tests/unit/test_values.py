"""Values that are frozen for the type checker are as good as frozen ones."""

import dataclasses
import pickle
import re
from copy import deepcopy
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pytest

import retrier
from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Frozen for the type checker alone."""

    queue: str
    endpoint: str | None = None
    password: str = field(default="", repr=False)
    seen: int = field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrozenPlace:
    """The same, frozen by Python."""

    queue: str
    endpoint: str | None = None
    password: str = field(default="", repr=False)
    seen: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class One:
    """One field."""

    queue: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """None at all."""


@dataclass(frozen=True, slots=True)
class Loud:
    """Says of itself how it is compared and shown."""

    queue: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loud) and self.queue.upper() == other.queue.upper()

    def __hash__(self) -> int:
        return hash(self.queue.upper())

    def __repr__(self) -> str:
        return self.queue.upper()


@dataclass(frozen=True, slots=True, order=True)
class Ranked:
    """What has an order is Python's own."""

    rank: int


@dataclass(slots=True)
class Counter:
    """What is not frozen is Python's own."""

    count: int = 0


def test_the_type_checker_refuses_an_assignment() -> None:
    place = Place(queue="orders")
    # It would call an ignore that hides nothing an error.
    place.queue = "billing"  # type: ignore[misc]


def test_equal_values_are_one_key() -> None:
    assert len({Place(queue="orders"), Place(queue="orders"), Place(queue="billing")}) == 2


@pytest.mark.parametrize("one", [Place(queue="orders"), One("orders"), Nothing()])
def test_it_equals_its_copies_and_nothing_else(one: Any) -> None:
    assert one == replace(one)
    assert one not in (None, "orders", ("orders",), Loud("orders"), Ranked(1))


def test_a_field_that_does_not_count_makes_no_difference() -> None:
    assert Place(queue="orders", seen=1) == Place(queue="orders", seen=2)
    assert Place(queue="orders", password="a") != Place(queue="orders", password="b")


def test_it_is_hashed_as_a_frozen_one() -> None:
    assert hash(Place(queue="orders", seen=1)) == hash(FrozenPlace(queue="orders", seen=2))
    assert (hash(One("orders")), hash(Nothing())) == (hash(("orders",)), hash(()))


def test_it_is_replaced_and_shown_as_a_frozen_one() -> None:
    changed = replace(Place(queue="orders", password="secret"), endpoint="Sales")

    assert repr(changed) == repr(FrozenPlace(queue="orders", endpoint="Sales")).replace(
        "FrozenPlace", "Place"
    )
    assert repr(Nothing()) == "Nothing()"


def test_what_a_class_says_itself_stays() -> None:
    assert Loud("orders") == Loud("ORDERS")
    assert {Loud("orders"): "it"}[Loud("Orders")] == "it"
    assert repr(Loud("orders")) == "ORDERS"


def test_it_has_no_other_attributes() -> None:
    assert not hasattr(Place(queue="orders"), "__dict__")


def test_it_is_copied_and_pickled() -> None:
    place = Place(queue="orders", seen=3)
    for copied in (deepcopy(place), pickle.loads(pickle.dumps(place))):  # noqa: S301 - our own
        assert dataclasses.astuple(copied) == dataclasses.astuple(place)


def test_what_has_an_order_or_changes_is_a_dataclass_of_python() -> None:
    assert Ranked(1) < Ranked(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ranked(1).rank = 2  # type: ignore[misc]
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)


PACKAGE = Path(retrier.__file__).parent
FROZEN_BY_PYTHON = ("worker", "integrations", "processes.py", "domain/values.py")
"""What users hold, and what the domain stands on."""


def test_all_values_of_the_service_are_made_by_this_decorator() -> None:
    own = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(
            r"^from dataclasses import .*\bdataclass\b", text := path.read_text(), re.MULTILINE
        )
        and "@dataclass(frozen=True" in text
    }

    assert {each for each in own if not each.startswith(FROZEN_BY_PYTHON)} == set()
