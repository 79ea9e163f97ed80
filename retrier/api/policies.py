"""Policies: the set in force, by which set each process judges, and the simulation."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import timedelta
from re import Pattern
from typing import Any, assert_never

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from retrier.api.answers import Json, answer, present, problem, time, told
from retrier.api.parts import ApiParts, Parts
from retrier.api.requests import Duration, show_duration
from retrier.domain.processes import find_differences
from retrier.errors import ConfigurationError
from retrier.policy.classification import ReasonRule
from retrier.policy.delays import (
    LONGEST,
    Additive,
    Backoff,
    Exponential,
    Fixed,
    Jitter,
    Linear,
    ListedDelays,
)
from retrier.policy.policy_set import Definition, InForce, PolicySet, Rule
from retrier.policy.simulation import RuleDecision, Sample
from retrier.store.policies import JudgingProcess, SimulatedBefore, list_judging_processes
from retrier.store.processes import list_processes

SHOWN_DELAYS = 50
"""Delays of a rule that are shown; `attempts` says how many there are."""


def shown_policies(
    found: InForce, processes: Iterable[JudgingProcess], differences: Sequence[str] = ()
) -> Json:
    """Show the set in force here, what each process judges by, and in what processes differ."""
    shown = {
        "configured": found.is_configured,
        "valid": not found.problems,
        "problems": list(found.problems),
        "set_hash": found.policies.hash,
        "file_time": time(found.file_time),
        "loaded_at": time(found.loaded_at),
    }
    own = present(shown) | definition(found.policies.definition)
    return own | {
        "processes": [_process(each) for each in processes],
        "differences": list(differences),
    }


def definition(shown: Definition) -> Json:
    """Show what a set consists of, with all presets and sets filled in."""
    return present(
        {
            "default": shown.default,
            "per_second": shown.per_second,
            "notices": shown.notices,
            "poison": {"crashes": shown.crashes},
            "classify": [_reason(each) for each in shown.classify],
            "rules": [_rule(each) for each in shown.rules],
        }
    )


_OF_REASONS = ("queue", "message_type", "exception", "failure_reason", "built_in")


def _reason(rule: ReasonRule) -> Json:
    conditions = {name: getattr(rule, name) for name in _OF_REASONS}
    asked: Json = {name: list(globs) for name, globs in conditions.items() if globs}
    searched = rule.message.pattern if isinstance(rule.message, Pattern) else rule.message
    return {"reason": rule.reason} | asked | present({"message": searched})


def _rule(rule: Rule) -> Json:
    return {
        "name": rule.name,
        "match": {name: list(globs) for name, globs in asdict(rule.match).items() if globs},
        "attempts": rule.attempts,
        "backoff": _backoff(rule.backoff),
        "jitter": _jitter(rule.jitter),
        "never": list(rule.never),
        "only": list(rule.only),
        "then": rule.then,
        "stream": rule.stream,
        "delays": [
            {"shortest": each.shortest.total_seconds(), "longest": each.longest.total_seconds()}
            for each in rule.delays()[:SHOWN_DELAYS]
        ],
    }


def _backoff(backoff: Backoff) -> Json:
    match backoff:
        case Exponential(first=first, factor=factor, cap=cap):
            kind: Json = {"kind": "exponential", "first": show_duration(first), "factor": factor}
            return kind | ({} if cap == LONGEST else {"cap": show_duration(cap)})
        case Linear(first=first, step=step, cap=cap):
            kind = {"kind": "linear", "first": show_duration(first), "step": show_duration(step)}
            return kind | ({} if cap == LONGEST else {"cap": show_duration(cap)})
        case Fixed(first=first):
            return {"kind": "fixed", "first": show_duration(first)}
        case ListedDelays(delays=delays):
            return {"kind": "list", "delays": [show_duration(each) for each in delays]}
        case _ as never:
            assert_never(never)


def _jitter(jitter: Jitter) -> object:
    match jitter:
        case Additive(most=most):
            return {"additive": show_duration(most)}
        case _:
            return jitter


def _process(found: JudgingProcess) -> Json:
    times = {name: time(getattr(found, name)) for name in ("file_time", "loaded_at", "seen_at")}
    return present(asdict(found) | {"problems": list(found.problems)} | times)


def simulated(result: SimulatedBefore, policies: PolicySet) -> Json:
    """Show what other policies would have decided, beside what was decided."""
    found = result.found
    counts = [
        {"old": _verdict(each.old), "new": _verdict(each.new), "count": count}
        for each, count in found.counts.items()
    ]
    changed = sum(count for each, count in found.counts.items() if each.old != each.new)
    shown = {
        "set_hash": policies.hash,
        "judged": found.judged,
        "changed": changed,
        "oldest": time(found.oldest),
        "stopped": result.stopped,
    }
    return present(shown) | {"counts": counts, "samples": [_sample(each) for each in found.samples]}


def _verdict(verdict: RuleDecision) -> Json:
    return present({"rule": verdict.rule, "decision": verdict.decision})


def _sample(sample: Sample) -> Json:
    failure, change = sample.failure, sample.change
    old = _verdict(change.old) | present({"reason": failure.reason})
    new = _verdict(change.new) | present({"reason": sample.reason, "why": sample.why})
    return {
        "id": failure.unique_message_id,
        "time": time(failure.received_at),
        "queue": failure.facts.queue,
        "failures": failure.failures,
        "old": old,
        "new": new,
    }


router = APIRouter(prefix="/api/policies", tags=["policies"])


@router.get("")
def get_policies(request: Request, parts: Parts) -> Response:
    """Return the policies in force, their rules in order, and what each process judges by."""
    processes = list_judging_processes(parts.db)
    differences = find_differences(list_processes(parts.db))
    return answer(request, shown_policies(parts.policies(), processes, differences))


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
    found = parts.simulate(policies, body.since)
    return told(simulated(found, policies))


def _read(body: SimulationBody, parts: ApiParts) -> PolicySet:
    content = body.policies
    return parts.policies().policies if content is None else parts.read_policies(content)


def _wrong(error: ConfigurationError) -> Response:
    """Name every problem with its place: `body.policies.rules[0].attempts`."""
    places = [line.partition(": ")[::2] for line in error.problems]
    errors = [{"field": f"body.{place}", "reason": reason} for place, reason in places]
    detail = f"The policies are wrong: {'; '.join(error.problems)}."
    return problem(422, detail, errors=errors)
