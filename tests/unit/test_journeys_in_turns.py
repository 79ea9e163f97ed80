"""A journey on two brokers runs on one of them each time; the journeys that matter most run on both."""

import pytest

from tests.support.turns import is_on_the_other_broker

FILE = "tests/journeys/test_when_metrics_are_scraped.py::test_the_figures"
MAIN = "tests/journeys/test_when_messages_failed_are_retried.py::test_the_main_job"


def left_out_of(*names: str) -> list[str]:
    return [name for name in names if is_on_the_other_broker(name, names)]


@pytest.mark.parametrize("journey", [f"{FILE}_{number}" for number in range(8)])
def test_of_two_brokers_one_is_left_out(journey: str) -> None:
    assert len(left_out_of(f"{journey}[quorum]", f"{journey}[embedded]")) == 1


def test_each_broker_has_its_share() -> None:
    journeys = [f"{FILE}_{number}" for number in range(8)]
    left = [each for one in journeys for each in left_out_of(f"{one}[quorum]", f"{one}[embedded]")]

    assert {name.partition("[")[2] for name in left} == {"quorum]", "embedded]"}


def test_what_is_named_alone_runs() -> None:
    assert left_out_of(f"{FILE}[quorum]") == left_out_of(f"{FILE}[embedded]") == []


def test_classic_queues_are_no_twin() -> None:
    assert left_out_of(f"{FILE}[classic]", f"{FILE}[embedded]") == []


def test_the_main_job_runs_on_both() -> None:
    assert left_out_of(f"{MAIN}[quorum]", f"{MAIN}[embedded]") == []
