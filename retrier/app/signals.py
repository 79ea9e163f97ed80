"""The signals that stop the service, taken up where no lock is held."""

import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType


class StopSignals:
    """The first SIGTERM or SIGINT begins the stop, the second one ends the process at once.

    Python runs a handler between any two steps of the main thread, also while that holds the
    lock of the log or of an event: a handler that takes one itself never returns, and everybody
    else who logs waits with it. So the handler only leaves word, and a thread takes it up.
    """

    def __init__(self, begin: Callable[[str], None]) -> None:
        """Call `begin` with the name of the first signal."""
        self._begin = begin
        self._came = False
        self._left: SimpleQueue[int] = SimpleQueue()

    def listen(self) -> None:
        """Take the signals from now on; from the main thread only."""
        threading.Thread(target=self.take_up, name="signals", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Leave word, by the one queue that is made to be used in a handler."""
        if self._came:
            os._exit(1)
        self._came = True
        self._left.put(number)

    def take_up(self) -> None:
        """Wait for the first signal, and begin the stop."""
        self._begin(signal.Signals(self._left.get()).name)
