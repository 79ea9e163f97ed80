"""Breakers as JSON."""

from datetime import datetime

from retrier.api.answers import Json, present, time
from retrier.domain.breakers import DEFAULT_RULE, Breaker, why_waiting


def breaker(shown: Breaker, at: datetime) -> Json:
    """Show a breaker as it is at this time; `waits_because` if messages wait for it."""
    hand = shown.hand if shown.hand is not None and at < shown.hand.until else None
    return present(
        {
            "key": str(shown.key),
            "per": shown.key.per,
            "name": shown.key.name,
            "state": shown.state_at(at),
            "waits_because": why_waiting(shown, at),
            "since": time(shown.opened_at),
            "changed_at": time(shown.changed_at),
            "due_at": time(shown.due_at),
            "failed": shown.failed if shown.opened_at else None,
            "sent": shown.sent if shown.opened_at else None,
            "cooldown_seconds": shown.cooldown.total_seconds() if shown.opened_at else None,
            "rule": _rule(shown.rule),
            "by_hand": None
            if hand is None
            else present(
                {"state": hand.state, "until": time(hand.until), "who": hand.who, "why": hand.why}
            ),
        }
    )


def _rule(rule: str | None) -> str | None:
    """Name the rule whose terms count; `breakers` is the section of the settings."""
    return "breakers" if rule == DEFAULT_RULE else rule
