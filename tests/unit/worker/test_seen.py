"""What remembers handled retries: a file, a Redis, a function."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from retrier.errors import ConfigurationError
from retrier.processes import describe_process
from retrier.worker.seen import (
    CLAIM,
    KEPT,
    Busy,
    Handled,
    NotHandled,
    Seen,
    SeenInFile,
    SeenInRedis,
    make_seen,
)
from tests.support.frozen_clock import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


class FakeRedis:
    """The few commands that are used, on a dict; nothing expires by itself."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}

    def set(self, key: str, value: bytes, *, nx: bool = False, px: int = 0) -> bool:
        assert px > 0
        if nx and key in self.keys:
            return False
        self.keys[key] = value
        return True

    def get(self, key: str) -> bytes | None:
        return self.keys.get(key)

    def delete(self, key: str) -> None:
        del self.keys[key]

    def pexpire(self, key: str, px: int) -> None:
        assert key in self.keys
        assert px > 0


@pytest.fixture(params=["file", "redis"])
def two(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock
) -> Iterator[tuple[Seen, Seen]]:
    """Give two that remember in the same place, each for a process of its own."""
    if request.param == "redis":
        client = FakeRedis()
        yield SeenInRedis(client), SeenInRedis(client)
        return
    first, second = SeenInFile(tmp_path / "seen.db", clock), SeenInFile(tmp_path / "seen.db", clock)
    second._me = replace(describe_process(), pid=os.getppid(), started="")  # noqa: SLF001 - another process
    yield first, second
    first.close()
    second.close()


def test_a_retry_that_was_handled_is_remembered_with_its_result(two: tuple[Seen, Seen]) -> None:
    first, second = two

    assert first.begin("r") == NotHandled()
    first.finish("r", b"[1]")

    assert first.begin("r") == Handled(b"[1]")
    assert second.begin("r") == Handled(b"[1]")
    assert second.begin("other") == NotHandled()


def test_a_retry_that_is_being_handled_is_busy_for_others(two: tuple[Seen, Seen]) -> None:
    first, second = two

    first.begin("r")
    first.keep(["r"])

    assert second.begin("r") == Busy()
    assert first.begin("r") == NotHandled()


def test_a_retry_that_was_not_handled_is_free_again(two: tuple[Seen, Seen]) -> None:
    first, second = two

    first.begin("r")
    second.drop("no claim of ours")
    first.drop("r")

    assert second.begin("r") == NotHandled()


def test_a_claim_that_is_not_renewed_runs_out(tmp_path: Path, clock: FrozenClock) -> None:
    first, second = SeenInFile(tmp_path / "seen.db", clock), SeenInFile(tmp_path / "seen.db", clock)
    second._me = replace(describe_process(), pid=os.getppid(), started="")  # noqa: SLF001 - another process
    first.begin("r")

    clock.advance(CLAIM - 1)
    assert second.begin("r") == Busy()
    clock.advance(2)
    assert second.begin("r") == NotHandled()


def test_the_claim_of_a_process_that_is_gone_is_free_at_once(
    tmp_path: Path, clock: FrozenClock
) -> None:
    dead, seen = SeenInFile(tmp_path / "seen.db", clock), SeenInFile(tmp_path / "seen.db", clock)
    dead._me = replace(describe_process(), started="1")  # noqa: SLF001 - a pid that was used again
    dead.begin("r")

    assert seen.begin("r") == NotHandled()


def test_what_was_handled_long_ago_is_forgotten(tmp_path: Path, clock: FrozenClock) -> None:
    SeenInFile(tmp_path / "seen.db", clock).finish("r", b"")

    clock.advance(KEPT + 1)

    assert SeenInFile(tmp_path / "seen.db", clock).begin("r") == NotHandled()


def test_a_function_is_asked_and_the_handler_remembers(clock: FrozenClock) -> None:
    seen = make_seen({"r"}.__contains__, clock)

    assert seen is not None
    assert (seen.begin("r"), seen.begin("s")) == (Handled(None), NotHandled())


@pytest.mark.parametrize("given", [7, b"path"])
def test_anything_else_is_refused(given: Any, clock: FrozenClock) -> None:
    with pytest.raises(ConfigurationError, match="seen must be a path"):
        make_seen(given, clock)


def test_a_real_redis_remembers(clock: FrozenClock) -> None:
    redis = pytest.importorskip("redis", reason="the library redis is not installed")
    client = redis.Redis.from_url("redis://127.0.0.1:6379")
    try:
        client.ping()
    except redis.ConnectionError:
        pytest.skip("no Redis on 127.0.0.1:6379")
    first, second = make_seen("redis://127.0.0.1:6379", clock), make_seen(client, clock)
    assert first is not None
    assert second is not None
    retry = uuid4().hex

    assert (first.begin(retry), second.begin(retry)) == (NotHandled(), Busy())
    first.finish(retry, b"7")
    assert second.begin(retry) == Handled(b"7")

    client.delete(f"retrier.seen.{retry}")
    client.close()
