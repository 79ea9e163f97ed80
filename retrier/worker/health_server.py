"""Answers over HTTP whether a worker takes messages."""

import json
from collections.abc import Callable

from retrier.worker.pages import Page, PageServer


class HealthServer(PageServer):
    """200 while messages are taken, else 503 with the reason; the same on every path."""

    def __init__(self, address: str, why_not: Callable[[], str | None]) -> None:
        """Listen on `PORT` (of this machine only) or `HOST:PORT`. Raises ConfigurationError."""

        def answer() -> Page:
            why = why_not()
            said = {"status": "taking"} if why is None else {"status": "waiting", "why": why}
            status = 200 if why is None else 503
            return Page(status, "application/json", json.dumps(said).encode())

        super().__init__(address, "the health check", answer)
