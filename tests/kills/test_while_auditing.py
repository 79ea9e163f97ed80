"""A process is killed at each step of a line: the chain goes on, and no act is without its line."""

import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from retrier.domain.access import hash_secret, make_token
from tests.kills.conftest import Tally
from tests.kills.rotation import everywhere
from tests.kills.sites import COUNT, STORED, Place
from tests.support.auditing import actions, read, walked
from tests.support.waiting import wait_until

DEADLINE = 60
SECRET = make_token(lambda length: b"\x2a" * length)
ASKED = "SELECT count(*) FROM archive_operations"
BEFORE = ("archive", "start", "unknown")
AFTER = ("archive", "end", "success")


@dataclass(frozen=True, slots=True)
class Step:
    """A crash point and its how manyth time; whether the act is done then, and its lines."""

    point: str
    time: int
    done: int
    told: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        return f"{self.point}-{self.time}"


# The first line of a process is its own, the second that before the act, the third that after it.
AUDITING = [
    Step("audit.before_line", 2, done=0, told=()),
    Step("audit.after_line", 1, done=0, told=(BEFORE,)),
    Step("audit.after_sync", 1, done=0, told=(BEFORE,)),
    Step("audit.before_line", 3, done=1, told=(BEFORE,)),
    Step("audit.after_line", 2, done=1, told=(BEFORE, AFTER)),
    Step("audit.after_sync", 2, done=1, told=(BEFORE, AFTER)),
]


def ask(http: httpx.Client, place: Place) -> httpx.Response:
    return http.post("/api/errors/archive", json=place.ids())


def told_in(path: Path) -> list[Any]:
    return [each for each in read(path) if not each["event"]["action"].startswith("audit_")]


@pytest.mark.parametrize(("combination", "step"), everywhere(AUDITING), indirect=["combination"])
def test_a_chain_goes_on_after_a_kill(
    step: Step, place: Place, tally: Tally, tmp_path: Path
) -> None:
    # Given a process that dies over a line
    path = tmp_path / "who-asked.jsonl"
    token = {"name": "deploy", "role": "admin", "sha256": hash_secret(SECRET)}
    place.host.configure("access", tokens=[token], audit={"file": str(path)})
    place.shop.fail(COUNT)
    doomed = place.host.start(crash_at=f"{step.point}:{step.time}")
    with doomed.http as http:
        http.headers["Authorization"] = f"Bearer {SECRET}"
        wait_until(lambda: place.count(STORED) == COUNT, DEADLINE, "all are stored")
        with suppress(httpx.TransportError):
            ask(http, place)
    assert doomed.wait_dead(DEADLINE) == -signal.SIGKILL

    # Then what is done has a line
    assert place.count(ASKED) == step.done
    assert tuple(actions(told_in(path))) == step.told

    # And the next process goes on with the chain
    with place.host.start().http as http:
        http.headers["Authorization"] = f"Bearer {SECRET}"
        assert ask(http, place).is_success
    walk = walked(path)
    tally.add(step.point, 0, 0)
    assert (walk.chains, walk.breaks) == (1, [])
    assert place.broken_rules() == []
