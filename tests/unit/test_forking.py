"""What is forked for tests inherits what takes long to load."""

import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

from tests.support.forking import FORKING, PRELOADED


def send_what_is_missing(answer: Connection, names: Sequence[str]) -> None:
    """Say which modules are not loaded: what a forked child does."""
    answer.send([name for name in names if name not in sys.modules])


def test_a_forked_process_has_loaded_everything() -> None:
    here, there = FORKING.Pipe()
    child = FORKING.Process(target=send_what_is_missing, args=(there, PRELOADED))

    child.start()

    assert here.recv() == []
    child.join()
