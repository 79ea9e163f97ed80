"""Asking for an act on messages: on one, on those named, on those that are sought."""

from collections.abc import Sequence

from fastapi import Response

from retrier.api.answers import accepted
from retrier.api.asking import Asking
from retrier.api.problems import problem
from retrier.api.views.outcomes import outcome
from retrier.domain.selection import Sought
from retrier.domain.ways_out import NOTHING_TO_DO, Act, Refusal


def act_on_one(asking: Asking, act: Act, unique_id: str) -> Response:
    """Answer 202, also if it was done before; else 404 or 409 with the reason."""
    came_to = asking.gateway.act(act, [unique_id], asking.requested_by)
    for reason in came_to.refused:
        if reason is Refusal.UNKNOWN:
            return problem(404, f"No failed message has the id {unique_id[:100]}.")
        if (act, reason) not in NOTHING_TO_DO:
            return problem(409, f"The message cannot be changed now: {reason}.")
    return accepted(outcome(act, came_to))


def act_on_ids(asking: Asking, act: Act, unique_ids: Sequence[str]) -> Response:
    """Answer 202 with how many were changed, and why the others were not."""
    return accepted(outcome(act, asking.gateway.act(act, unique_ids, asking.requested_by)))


def act_on(asking: Asking, act: Act, sought: Sought) -> Response:
    """Answer 202 with how many were changed, and why the others were not."""
    return accepted(outcome(act, asking.gateway.act_on(act, sought, asking.requested_by)))
