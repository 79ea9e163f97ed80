"""Three in the morning, by the command line alone: six questions, by two commands each at most."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.journeys.conftest import Site
from tests.support.night import (
    CARD,
    HELD_WHY,
    LABELS,
    NEW,
    TRUCK,
    WHY,
    Night,
    begin,
)

pytestmark = [pytest.mark.journey, pytest.mark.parametrize("kind", ["embedded"])]


@pytest.fixture(params=[60, pytest.param(5_000, marks=pytest.mark.kills)])
def night(site: Site, request: pytest.FixtureRequest) -> Iterator[Night]:
    """Give a night with some failures; with `-m kills` also with as many as a bad night has."""
    service = site.host.start_ready()
    with service.http as http:
        yield begin(site, http, request.param)


def read(night: Night, *arguments: str) -> Any:
    """Run a command as who is on call would; return its JSON."""
    environ = {**os.environ, "RETRIER_URL": str(night.http.base_url), "USER": "linus"}
    command = [sys.executable, "-m", "retrier", *arguments, "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_six_questions_are_answered(night: Night) -> None:
    what_broke(night)
    what_is_new(night)
    who_retried(night)
    did_it_work(night)
    which_came_back(night)
    what_is_held(night)


def what_broke(night: Night) -> None:
    counts = {
        each["title"].partition(":")[0]: each["count"] for each in read(night, "groups")["items"]
    }

    assert counts[CARD] == night.of[CARD]
    assert counts[TRUCK] == night.came_back


def what_is_new(night: Night) -> None:
    found = read(night, "groups", "--since", "2h", "--sort", "first")["items"]

    assert NEW in {each["title"].partition(":")[0] for each in found}
    assert CARD not in {each["title"].partition(":")[0] for each in found}


def who_retried(night: Night) -> None:
    found = {each["id"]: each for each in read(night, "operations", "list")["items"]}

    assert found[night.operation_id]["requested_by"].startswith("ada (")
    assert found[night.operation_id]["why"] == WHY


def did_it_work(night: Night) -> None:
    found = read(night, "operations", "show", night.operation_id[:8])

    assert found["forwarded"] == night.sent
    assert found["outcomes"]["confirmed"] == night.confirmed
    assert found["outcomes"]["came_back"] == night.came_back


def which_came_back(night: Night) -> None:
    found = read(
        night,
        *("errors", "list", "--operation", night.operation_id[:8], "--outcome", "came_back"),
    )

    assert found["total"] == night.came_back
    assert {each["exception"]["exception_type"] for each in found["items"]} == {TRUCK}


def what_is_held(night: Night) -> None:
    (breaker,) = [
        each for each in read(night, "breakers", "list")["items"] if each["key"] == LABELS
    ]

    assert breaker["state"] == "open"
    assert breaker["by_hand"]["who"].startswith("grace (")
    assert breaker["by_hand"]["why"] == HELD_WHY
    (waits,) = read(night, "processor")["operations"]
    assert waits["remaining"] == night.held
    assert HELD_WHY in waits["waits_because"]
