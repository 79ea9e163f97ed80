"""A stop begins, whatever the main thread is in the middle of."""

import subprocess
import sys

import pytest

LISTENING = """
import os, signal, sys, threading
from retrier.app.process import StopSignals

told, log = threading.Event(), threading.Lock()

def begin(name):
    with log:
        print(name, flush=True)
    told.set()

StopSignals(begin).listen()
"""
IN_THE_MIDDLE_OF_A_LINE = """
with log:
    os.kill(os.getpid(), signal.SIGTERM)
told.wait()
"""
NOT_WOKEN = """
# Another thread of the process is given the signal, and nothing wakes this one.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
told.wait()
"""
TWICE = """
os.kill(os.getpid(), signal.SIGTERM)
told.wait()
os.kill(os.getpid(), signal.SIGINT)
threading.Event().wait()
"""


def run(main: str) -> tuple[int, str]:
    """Run a process whose main thread does this; return its exit code and what it told."""
    words = [sys.executable, "-c", LISTENING + main]
    ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=30, check=False)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("main", [IN_THE_MIDDLE_OF_A_LINE, NOT_WOKEN], ids=["logs", "waits"])
def test_a_signal_begins_the_stop_whatever_the_main_thread_does(main: str) -> None:
    assert run(main) == (0, "SIGTERM\n")


def test_a_second_signal_ends_the_process_at_once() -> None:
    assert run(TWICE) == (1, "SIGTERM\n")
