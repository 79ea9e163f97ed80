"""Page, command line and API never disagree about an operation, in whatever stage it is.

Which two faces are compared about which operation is drawn. More pairs than the plain run takes:

    RETRIER_TEST_PAIRS=100 pytest tests/journeys/test_when_faces_are_compared.py

A run is repeated by the seed that it names: RETRIER_TEST_SEED.
"""

import os
import random
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx
import pytest

from retrier.cli.command import Tools
from tests.journeys.conftest import Site
from tests.support.commands import invoke
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.parametrize("kind", ["embedded"])]

DEADLINE = 120.0
PAIRS = int(os.environ.get("RETRIER_TEST_PAIRS", "12"))
EACH = 4
"""Messages of an operation; more of the one that runs, at one a second."""
MANY = 600

Numbers = Mapping[str, int]
Read = Callable[[str], Numbers]


@dataclass(frozen=True, slots=True)
class Stages:
    """A service, and the ids of operations by their stage."""

    http: httpx.Client
    ids: Mapping[str, str]


NAMES: Mapping[str, tuple[str, ...]] = {
    "total": ("messages", "total"),
    "forwarded": ("sent",),
    "confirmed": ("confirmed",),
    "came_back": ("came back",),
    "presumed": ("presumed to have succeeded",),
    "resolved": ("resolved by a person",),
    "waiting": ("without outcome yet",),
    "skipped": ("skipped", "not sent"),
    "failed": ("could not be sent", "failed"),
    "remaining": ("remaining",),
}
"""What a number is called in the API, and on the page or the command line."""

FACT = re.compile(r"<dt>([^<]+)</dt><dd[^>]*>(?:<a[^>]*>)?([\d,]+)<")
LINE = re.compile(r"^([a-z ,]+?) {2,}([\d,]+)$", re.MULTILINE)


def by_api(http: httpx.Client, key: str) -> Numbers:
    """Read the numbers that the API says."""
    found: dict[str, Any] = http.get(f"/api/operations/{key}").raise_for_status().json()
    said = {**found, **found["outcomes"]}
    return {name: int(said.get(name, 0)) for name in NAMES}


def by_page(http: httpx.Client, key: str) -> Numbers:
    """Read the numbers that the page shows."""
    html = http.get(f"/operations/{key}").raise_for_status().text
    return _named({unescape(name): number for name, number in FACT.findall(html)})


def by_command(http: httpx.Client, key: str) -> Numbers:
    """Read the numbers that the command line prints to people."""
    environ = {"RETRIER_URL": str(http.base_url), "RETRIER_TOKEN": None, "USER": "ada"}
    done = invoke(("operations", "show", key[:8]), env=environ, obj=Tools())
    assert done.exit_code == 0, done.stderr
    return _named(dict(LINE.findall(done.stdout)))


def _named(shown: Mapping[str, str]) -> Numbers:
    """Return numbers by their names in the API; what is not shown is 0, but these are always."""
    told = {name.lower(): int(number.replace(",", "")) for name, number in shown.items()}
    assert told.keys() >= {"sent", "remaining"}
    return {
        name: next((told[word] for word in words if word in told), 0)
        for name, words in NAMES.items()
    }


FACES = {"api": by_api, "page": by_page, "command line": by_command}


@pytest.fixture
def stages(site: Site) -> Iterator[Stages]:
    """Give operations in every stage: each of a queue of its own."""
    presumes = {"RETRIER_RETRIES__PRESUMED_AFTER": "1s", "RETRIER_RETENTION__SECOND_LOOK": "1s"}
    first = site.host.start_ready(environ=presumes)
    with first.http as http:
        presumed = ask(site, http, "presumed", EACH)
        reach(http, presumed, presumed=EACH)
    assert first.stop() == 0
    service = site.host.start_ready()
    with service.http as http:
        ids = {"presumed": presumed, "running": ask(site, http, "running", MANY, rate=1)}
        ids["paused"] = ask(site, http, "paused", EACH, rate=1)
        http.patch(f"/api/operations/{ids['paused']}", json={"paused": True}).raise_for_status()
        ids["cancelled"] = ask(site, http, "cancelled", EACH, rate=1)
        http.delete(f"/api/operations/{ids['cancelled']}").raise_for_status()
        ids["done"] = ask(site, http, "done", EACH)
        for sent in site.shop.take("done", EACH):
            site.shop.confirm(sent)
        ids["came back"] = ask(site, http, "came", EACH)
        for sent in site.shop.take("came", EACH)[1:]:
            site.shop.fail_again(sent)
        reach(http, ids["done"], confirmed=EACH)
        reach(http, ids["came back"], came_back=EACH - 1)
        yield Stages(http, ids)


def ask(site: Site, http: httpx.Client, queue: str, count: int, rate: int | None = None) -> str:
    """Let messages of a queue fail, and ask for their retry; return the operation."""
    site.shop.declare(queue)
    site.shop.fail(count, queue=queue)
    listed = {"queue": queue, "per_page": 1}
    wait_until(
        lambda: http.get("/api/errors", params=listed).headers["Total-Count"] == str(count),
        DEADLINE,
    )
    body = {"selection": {"queue": queue}} | ({} if rate is None else {"rate": rate})
    answer = http.post("/api/operations", json=body).raise_for_status()
    return str(answer.json()["operation_id"])


def reach(http: httpx.Client, key: str, **wanted: int) -> None:
    """Wait until an operation has these numbers."""
    wait_until(lambda: wanted.items() <= by_api(http, key).items(), DEADLINE, f"{wanted}")


def test_two_faces_never_disagree_about_an_operation(stages: Stages) -> None:
    seed = int(os.environ.get("RETRIER_TEST_SEED") or secrets.randbits(32))
    dice = random.Random(seed)  # noqa: S311 - so that a run can be repeated
    for _ in range(PAIRS):
        one, other = dice.sample(sorted(FACES), 2)
        stage = dice.choice(sorted(stages.ids))
        first, second = read_both(stages, stage, FACES[one], FACES[other])

        assert first == second, f"{one} and {other} about what is {stage}, seed {seed}"


def read_both(
    stages: Stages, stage: str, one: Callable[..., Numbers], other: Callable[..., Numbers]
) -> tuple[Numbers, Numbers]:
    """Read both at a moment in which the first says the same before and after the second."""
    found: list[tuple[Numbers, Numbers]] = []

    def is_settled() -> bool:
        before = one(stages.http, stages.ids[stage])
        between = other(stages.http, stages.ids[stage])
        found.append((before, between))
        return before == one(stages.http, stages.ids[stage])

    wait_until(is_settled, DEADLINE, "a moment in which nothing changes")
    return found[-1]
