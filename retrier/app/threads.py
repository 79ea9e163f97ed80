"""A thread for each part: whatever ends one is told, and makes the service not ready."""

import threading
from collections.abc import Callable

from retrier.app.readiness import ReadinessBoard
from retrier.logs import Say


def start_part(
    name: str, work: Callable[[], None], board: ReadinessBoard, say: Say
) -> threading.Thread:
    """Start the work of a part; return its thread."""

    def run() -> None:
        # By itself a thread would write its exception to the stream, with all that it quotes.
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the edge of the thread
            board.put(name, ready=False, reason=f"ended by {type(error).__name__}")
            say("service.part_failed", part=name, exc_info=error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
