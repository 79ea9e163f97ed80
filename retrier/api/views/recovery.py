"""A recovery as JSON."""

from dataclasses import asdict

from retrier.api.answers import Json, time
from retrier.store.queries.recovery import Recovering


def recovering(shown: Recovering | None) -> Json:
    """Show whether one is under way, since when, and what was on its way."""
    if shown is None:
        return {"held": False, "queues": []}
    return {
        "held": True,
        "since": time(shown.recovery.since),
        "sent_from": time(shown.recovery.sent_from),
        "begun_at": time(shown.recovery.begun_at),
        "begun_by": shown.recovery.begun_by,
        "queues": [asdict(each) for each in shown.queues],
    }
