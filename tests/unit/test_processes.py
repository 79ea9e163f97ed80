"""Whether the process that holds messages is gone, as far as that can be known."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from retrier.processes import Owner, describe_process, is_gone
from tests.support.waiting import wait_until

ME = describe_process()
pytestmark = pytest.mark.skipif(not ME.started, reason="this system has no /proc")
DESCRIBE = "from retrier.processes import *; print(describe_process()); input()"


@pytest.fixture
def child() -> Iterator["Popen[str]"]:
    """Give another process, which has described itself."""
    with Popen([sys.executable, "-c", DESCRIBE], stdin=PIPE, stdout=PIPE, text=True) as child:
        yield child
        child.kill()


@pytest.fixture
def other(child: "Popen[str]") -> Owner:
    """Give the other process as it describes itself."""
    assert child.stdout
    words = child.stdout.readline()
    owner = eval(words, {"Owner": Owner})  # noqa: S307 - our own child wrote it
    assert isinstance(owner, Owner)
    return owner


def test_this_process_is_not_gone() -> None:
    assert not is_gone(ME, describe_process())


def test_another_process_is_not_gone_while_it_lives(other: Owner) -> None:
    assert not is_gone(other, ME)


def test_a_killed_process_is_gone_also_before_its_parent_has_waited(
    child: "Popen[str]", other: Owner
) -> None:
    child.kill()

    wait_until(lambda: is_gone(other, ME), 30)
    assert child.returncode is None


def test_a_process_that_ended_is_gone(child: "Popen[str]", other: Owner) -> None:
    child.kill()
    child.wait()

    assert is_gone(other, ME)


def test_a_process_whose_number_was_given_to_another_is_gone(other: Owner) -> None:
    assert is_gone(replace(other, started="1"), ME)


def test_every_process_of_an_earlier_boot_is_gone(other: Owner) -> None:
    assert is_gone(replace(other, boot="earlier"), ME)


def test_a_process_of_another_container_cannot_be_judged(other: Owner) -> None:
    assert not is_gone(replace(other, space="pid:[1]", started="1"), ME)


def test_a_process_that_could_not_describe_itself_cannot_be_judged(tmp_path: Path) -> None:
    unknown = describe_process(tmp_path)

    assert unknown == Owner(boot="", space="", pid=ME.pid, started="")
    assert not is_gone(replace(unknown, pid=2**22), ME)
    assert not is_gone(replace(ME, started="1"), unknown)


def test_a_process_that_proc_hides_is_not_gone_while_it_lives(other: Owner, tmp_path: Path) -> None:
    assert not is_gone(other, ME, proc=tmp_path)


def test_a_process_of_another_user_that_proc_hides_is_not_gone(tmp_path: Path) -> None:
    assert not is_gone(replace(ME, pid=1), ME, proc=tmp_path)


def test_a_process_that_proc_does_not_know_and_that_ended_is_gone(
    child: "Popen[str]", other: Owner, tmp_path: Path
) -> None:
    child.kill()
    child.wait()

    assert is_gone(other, ME, proc=tmp_path)
