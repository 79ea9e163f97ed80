"""What ready must tell of a processor that gets no further."""

import re

from tests.faults.work import Work
from tests.support.waiting import wait_until

TOLD_WITHIN = 25
"""Seconds: 15 without progress, and what was on its way when the fault began."""
NEXT_TRY = 30
"""Seconds that a batch waits after three losses of all its copies, or for a queue not to be used."""


def must_tell(work: Work, cause: str) -> None:
    """Wait until ready is 503 because the processor gets no further, and why."""
    must_say(work, rf"no progress for \d+ s: {re.escape(cause)}")


def must_say(work: Work, reason: str) -> None:
    """Wait until ready is 503 because of the processor, with a reason of this pattern."""
    with work.service.http as http:

        def says() -> bool:
            answer = http.get("/health/ready")
            told = answer.json()["parts"]["processor"]
            named = re.fullmatch(reason, str(told["reason"])) is not None
            return answer.status_code == 503 and not told["ok"] and named

        wait_until(says, TOLD_WITHIN, f"ready tells: {reason}")
