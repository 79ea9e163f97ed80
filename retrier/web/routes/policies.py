"""Policies: the set in force, who judges by which, and what others would have decided."""

from datetime import timedelta

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.errors import ConfigurationError
from retrier.policy.policy_set import PolicySet
from retrier.store.queries.policy_sets import list_judging_processes
from retrier.store.queries.policy_simulation import Bounds, simulate_policies
from retrier.web.forms import Form, SentForm
from retrier.web.parts import PageParts, Parts
from retrier.web.showing import show
from retrier.web.views.policies import SINCE, SimulationView, policy_view, simulation_view

router = APIRouter(prefix="/policies")

_HERE = "/policies"
_SINCE = "7d"
_LONGEST_TEXT = 64 * 1024
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
EXAMPLE = """\
policies:
  rules:
    - name: timeouts
      match: {exception: "*Timeout*"}
      preset: outbox
"""
"""What stands in the form where there are no policies yet."""


@router.get("")
def get_policies(request: Request, parts: Parts) -> Response:
    """Show the set in force, and the form that simulates another."""
    text = parts.policies.text() or EXAMPLE
    view = policy_view(parts.policies.in_force(), list_judging_processes(parts.db), text, _SINCE)
    return show(request, "policies.html", view, current=_HERE)


@router.post("/simulate")
def simulate(request: Request, parts: Parts, form: SentForm) -> Response:
    """Judge stored failures by the policies of the form, and compare. Nothing is changed."""
    text = _read_text(form)
    since = form.text("since") if form.text("since") in SINCE else _SINCE
    wrong: tuple[str, ...] = ()
    simulated = None
    try:
        simulated = _simulate(parts, parts.policies.read(text), since)
    except ConfigurationError as error:
        wrong = error.problems
    view = policy_view(
        parts.policies.in_force(),
        list_judging_processes(parts.db),
        text,
        since,
        wrong=wrong,
        simulated=simulated,
    )
    return show(request, "policies.html", view, current=_HERE, status=422 if wrong else 200)


def _read_text(form: Form) -> str:
    text = next(iter(form.values("policies")), "")
    if len(text) > _LONGEST_TEXT:
        raise HTTPException(413, f"Policies have at most {_LONGEST_TEXT:,} characters here.")
    return text.replace("\r\n", "\n")


def _simulate(parts: PageParts, policies: PolicySet, since: str) -> SimulationView:
    if not parts.policies.simulating.acquire(blocking=False):
        raise HTTPException(503, "Another simulation is running. Try again when it is over.")
    try:
        bounds = Bounds(since=int(since[:-1]) * _UNITS[since[-1]])
        found = simulate_policies(parts.db, policies, parts.codec, bounds)
    finally:
        parts.policies.simulating.release()
    return simulation_view(found, policies.hash)
