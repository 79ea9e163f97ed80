"""Policies: the set in force, and by which set each process judges."""

from datetime import timedelta
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict

from retrier.api.answers import answer, told
from retrier.api.durations import Duration
from retrier.api.parts import ApiParts, Parts
from retrier.api.problems import problem
from retrier.api.views import policies as views
from retrier.domain.processes import find_differences
from retrier.errors import ConfigurationError
from retrier.policy.policy_set import PolicySet
from retrier.store.queries.policy_sets import list_judging_processes
from retrier.store.queries.policy_simulation import Bounds, simulate_policies
from retrier.store.queries.processes import list_processes

router = APIRouter(prefix="/api/policies", tags=["policies"])


@router.get("")
def get_policies(request: Request, parts: Parts) -> Response:
    """Return the policies in force, their rules in order, and what each process judges by."""
    processes = list_judging_processes(parts.db)
    differences = find_differences(list_processes(parts.db))
    return answer(request, views.policies(parts.policies(), processes, differences))


class SimulationBody(BaseModel):
    """What POST simulate takes: how far back, and other policies than those in force."""

    model_config = ConfigDict(extra="forbid")

    since: Duration = timedelta(days=7)
    policies: dict[str, Any] | None = None


@router.post("/simulate", status_code=200)
def simulate(body: SimulationBody, parts: Parts) -> Response:
    """Judge the newest stored failures by policies, and compare; nothing is changed."""
    try:
        policies = _read(body, parts)
    except ConfigurationError as error:
        return _wrong(error)
    if not parts.simulating.acquire(blocking=False):
        raise HTTPException(503, "Another simulation is running.", {"Retry-After": "30"})
    try:
        found = simulate_policies(parts.db, policies, parts.codec, Bounds(since=body.since))
    finally:
        parts.simulating.release()
    return told(views.simulated(found, policies))


def _read(body: SimulationBody, parts: ApiParts) -> PolicySet:
    content = body.policies
    return parts.policies().policies if content is None else parts.read_policies(content)


def _wrong(error: ConfigurationError) -> Response:
    """Name every problem with its place: `body.policies.rules[0].attempts`."""
    places = [line.partition(": ")[::2] for line in error.problems]
    errors = [{"field": f"body.{place}", "reason": reason} for place, reason in places]
    detail = f"The policies are wrong: {'; '.join(error.problems)}."
    return problem(422, detail, errors=errors)
