"""A stop begins, whatever the main thread is in the middle of."""

import signal
from threading import Lock, Thread

from retrier.app.process import StopSignals
from tests.support.waiting import wait_until


def test_a_signal_that_comes_while_a_line_is_logged_holds_nobody_up() -> None:
    # Given a log that takes one line at a time, and the main thread in the middle of one
    log, told = Lock(), list[str]()

    def begin(name: str) -> None:
        with log:
            told.append(name)

    signals = StopSignals(begin)
    thread = Thread(target=signals.take_up)
    thread.start()
    with log:
        # When the signal comes, then the main thread goes on
        signals.on_signal(signal.SIGTERM, None)

    # and the stop begins
    wait_until(lambda: told == ["SIGTERM"], 5)
    thread.join(5)
