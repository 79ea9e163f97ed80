"""Who holds the lease, and whether that process is gone for certain."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from retrier.app.process import (
    CLOCK_OFFSET,
    CRASH_AT,
    FREEZE_AT,
    describe_holder,
    is_dead,
    make_clock,
    make_crash_switch,
)
from retrier.clock import SystemClock
from retrier.events.processor import CompletionTried
from tests.support.waiting import wait_until

ME = describe_holder("a session")

CRASH = """
import os
from types import SimpleNamespace
from retrier.app.process import make_crash_switch
tell = make_crash_switch({os.environ["SWITCH"]: "here:2"})
for point in ("elsewhere", "here", "elsewhere", "here"):
    print(point, flush=True)
    tell(SimpleNamespace(name=point))
print("survived")
"""


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_this_process_is_not_dead() -> None:
    assert not is_dead(ME)


def test_a_process_that_ended_is_dead(dead_pid: int) -> None:
    assert is_dead(replace(ME, pid=dead_pid))


def test_a_reused_process_id_does_not_stand_for_its_predecessor() -> None:
    assert is_dead(replace(ME, process_started=ME.process_started + "0"))


def test_a_process_of_another_host_cannot_be_judged(dead_pid: int) -> None:
    assert not is_dead(replace(ME, host="elsewhere", pid=dead_pid))


def test_a_process_of_another_boot_cannot_be_judged(dead_pid: int) -> None:
    assert not is_dead(replace(ME, process_started="another boot", pid=dead_pid))


def test_an_event_kills_at_the_time_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASH],
        env={**os.environ, "SWITCH": CRASH_AT},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["elsewhere", "here", "elsewhere", "here"]


def test_an_event_freezes_at_the_time_asked_for() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CRASH],
        env={**os.environ, "SWITCH": FREEZE_AT},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        state = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", 30)

        process.send_signal(signal.SIGCONT)

        told, _ = process.communicate(timeout=10)
    assert told.split() == ["elsewhere", "here", "elsewhere", "here", "survived"]


@pytest.mark.parametrize("seconds", [-300, 300])
def test_a_clock_is_as_wrong_as_asked_for(seconds: int) -> None:
    clock, right = make_clock({CLOCK_OFFSET: str(seconds)}), SystemClock()

    assert abs(clock.now() - right.now() - timedelta(seconds=seconds)) < timedelta(seconds=10)
    assert abs(clock.monotonic() - right.monotonic()) < 10


def test_a_clock_is_right_without_the_switch() -> None:
    assert isinstance(make_clock({}), SystemClock)


def test_events_are_harmless_without_the_switch() -> None:
    tell = make_crash_switch({})

    tell(CompletionTried(batch_id="batch", unrecorded=0))

    assert os.getpid() == ME.pid
