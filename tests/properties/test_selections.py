"""What is selected is what is acted on: the short form of the oracle.

The long form is `python -m tests.endurance.selections`.
"""

import random
from collections.abc import Iterator

import pytest

from tests.conftest import opened_empty
from tests.properties.selections.names import Names
from tests.properties.selections.refusals import Refusals
from tests.properties.selections.rounds import Oracle
from tests.properties.selections.stock import Stock, fill

SEED = 1
MESSAGES = 90
CONDITIONS = {"sqlite": 130, "postgres": 70}


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def stock(request: pytest.FixtureRequest) -> Iterator[Stock]:
    """Give a database full of failures; each test leaves all messages as they were."""
    with opened_empty(request.param, request) as db:
        filled = fill(db, random.Random(SEED), MESSAGES)  # noqa: S311 - so that a run can be repeated
        yield filled
        filled.web.close()


@pytest.fixture
def dice(stock: Stock) -> random.Random:
    return random.Random(f"{SEED} {stock.db.is_sqlite}")  # noqa: S311 - so that a run can be repeated


def test_each_face_lists_counts_and_takes_what_a_condition_means(
    stock: Stock, dice: random.Random
) -> None:
    oracle = Oracle(stock=stock, dice=dice)

    for _ in range(CONDITIONS["sqlite" if stock.db.is_sqlite else "postgres"]):
        oracle.ask()

    assert oracle.problems == []


def test_what_nobody_understands_is_refused_on_each_face(stock: Stock, dice: random.Random) -> None:
    refusals = Refusals(stock=stock, dice=dice)

    for _ in range(8):
        refusals.ask()

    assert refusals.problems == []


def test_an_act_that_does_not_fit_is_refused(stock: Stock, dice: random.Random) -> None:
    refusals = Refusals(stock=stock, dice=dice)

    refusals.ask_for_unfit()

    assert refusals.problems == []


def test_a_name_means_one_message_or_nothing_is_done(stock: Stock, dice: random.Random) -> None:
    names = Names(stock=stock, dice=dice)

    for _ in range(8):
        names.ask()

    assert names.problems == []


def test_what_is_known_of_the_messages_is_what_is_stored(stock: Stock) -> None:
    """Else the oracle would be wrong, and not the product."""
    shown = {item["id"]: item for item in stock.cli.api.get("errors", per_page=500)}

    assert {
        each.unique_id: (each.status, each.attempts, each.reason) for each in stock.messages
    } == {
        key: (item["status"], item["number_of_processing_attempts"], item["reason"])
        for key, item in shown.items()
    }
