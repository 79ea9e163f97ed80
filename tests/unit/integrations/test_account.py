"""What was published and what was not is counted, and said in the log."""

import logging
import subprocess
import sys
from collections.abc import Callable

import pytest

from retrier.integrations.handover import Account, Deed

Caught = pytest.LogCaptureFixture


def test_each_deed_is_counted():
    account = Account()

    account.note(Deed.PUBLISHED, "shop.pack", "b1")
    account.note(Deed.PUBLISHED, "shop.pack", "b2")

    assert account.counts == {"failure_published": 2}


@pytest.mark.parametrize(
    ("deed", "level"),
    [
        (Deed.UNPUBLISHED, logging.ERROR),
        (Deed.HELD_BACK, logging.WARNING),
        (Deed.UNCONFIRMED, logging.WARNING),
    ],
)
def test_what_was_not_published_is_said_with_the_reason_and_an_error_is_what_may_be_lost(
    deed: Deed, level: int, caplog: Caught
) -> None:
    Account().note(deed, "shop.pack", "b1", "there is no queue error")

    (record,) = caplog.records
    assert record.levelno == level
    assert all(word in record.message for word in ("shop.pack", "b1", "there is no queue error"))


def test_what_was_published_is_not_logged(caplog: Caught) -> None:
    Account().note(Deed.CONFIRMED, "shop.pack", "b1")

    assert caplog.records == []


def test_what_was_published_late_is_said_and_counted(caplog: Caught) -> None:
    account = Account()

    account.note_late(Deed.PUBLISHED, "shop.pack", "b1")

    assert "shop.pack (b1) is on the error queue by now" in caplog.text
    assert account.counts == {"failure_published": 1}


FORK = """
import os, threading
from retrier.integrations.handover import Account, Deed
account = Account()
with account._lock:
    child = os.fork()
    if child == 0:
        threading.Timer(5, lambda: os._exit(1)).start()
        account.note(Deed.PUBLISHED, "shop.pack", "b1")
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_that_is_made_while_a_thread_counts_can_count():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)

    assert done.stdout == "0\n"


def test_a_function_of_the_user_is_told():
    told: list[tuple[str, str]] = []

    Account(lambda deed, task: told.append((deed, task))).note(Deed.CONFIRMED, "shop.pack", "b1")

    assert told == [("retry_confirmed", "shop.pack")]


def test_a_function_that_raises_harms_nobody(caplog: Caught) -> None:
    fail: Callable[[str, str], object] = lambda *_: 1 // 0  # noqa: E731

    Account(fail).note(Deed.CONFIRMED, "shop.pack", "b1")

    assert "metrics" in caplog.text
