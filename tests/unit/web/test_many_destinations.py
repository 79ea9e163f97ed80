"""Retries to very many queues: all are looked at before, and what is not is told on all three faces."""

from collections.abc import Sequence
from typing import Any

import pytest

from retrier.http.parts import MissingQueues
from tests.support.command_line import CommandLine
from tests.support.factories import failure
from tests.support.web import Web

COUNT = 120
QUEUES = [f"q{number:03}" for number in range(COUNT)]
SLOW = "the broker did not answer within 1 s"
NOT_LOOKED_AT = "100 of 120 queues were not looked at: it is not known whether they exist"


@pytest.fixture
def asked(web: Web) -> list[str]:
    """Have a message of each queue, and of the first one two; note which queues are looked at."""
    web.api.receive(*(failure(queue=each) for each in ["q000", *QUEUES]))
    return []


def see(web: Web, sight: MissingQueues, asked: list[str]) -> None:
    def look_at(queues: Sequence[str]) -> MissingQueues:
        asked[:] = queues
        return sight

    web.api.look_at = look_at


def warnings(web: Web) -> list[Any]:
    preview = web.api.http.post("/api/operations/preview", json={"selection": {"all": True}})
    return [each["text"] for each in preview.json()["warnings"]]


def test_all_are_looked_at_the_fullest_first(web: Web, asked: list[str]) -> None:
    see(web, MissingQueues(), asked)

    assert warnings(web) == []
    assert asked == QUEUES


def test_one_that_is_missing_is_told_wherever_it_stands(web: Web, asked: list[str]) -> None:
    see(web, MissingQueues(missing=frozenset({"q000", "q119"})), asked)

    html = web.get("/retry")

    assert warnings(web) == [
        "The queue q000 does not exist: retries to it fail.",
        "The queue q119 does not exist: retries to it fail.",
    ]
    assert html.count("does not exist: retries to it fail") == 2
    assert "The queue q119 does not exist" in html


def test_of_very_many_the_first_are_named_and_the_others_summed(web: Web, asked: list[str]) -> None:
    see(web, MissingQueues(missing=frozenset(QUEUES)), asked)

    told = warnings(web)

    assert (len(told), told[-1]) == (51, "70 more queues do not exist: 70 retries to them fail.")


def test_how_many_were_not_looked_at_is_told_on_all_faces(web: Web, asked: list[str]) -> None:
    see(web, MissingQueues(why_not=SLOW, not_looked_at=(100, COUNT)), asked)
    cli = CommandLine(web.api.db)
    cli.api.look_at = web.api.look_at

    told = [*warnings(web), cli.run("retry", "--all", "--dry-run").stderr, web.get("/retry")]

    assert [f"{NOT_LOOKED_AT}: {SLOW}." in each for each in told] == [True, True, True]


def test_messages_without_a_destination_are_told_wherever_they_stand(
    web: Web, asked: list[str]
) -> None:
    web.api.receive(*(failure(queue=each) for each in QUEUES), failure(destination=""))
    see(web, MissingQueues(), asked)

    assert [each.split(":")[0] for each in warnings(web)] == [
        "No destination is known of 1 message"
    ]
