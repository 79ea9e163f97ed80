"""Policies: the set in force, by which set each process judges, and the simulation."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import timedelta
from re import Pattern
from typing import Annotated, Any, assert_never

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import Answer, Refusal, Routes, answer, present, problem, time, told
from retrier.api.parts import ApiParts, Parts
from retrier.api.requests import Duration, show_duration
from retrier.api.shapes import service as shapes
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
    Spread,
)
from retrier.policy.policy_set import Definition, InForce, PolicySet, Rule
from retrier.policy.simulation import RuleDecision, Sample
from retrier.store.policies import JudgingProcess, SimulatedBefore, list_judging_processes
from retrier.store.processes import list_processes

SHOWN_DELAYS = 50
"""Delays of a rule that are shown; `attempts` says how many there are."""


def shown_policies(
    found: InForce, processes: Iterable[JudgingProcess], differences: Sequence[str] = ()
) -> shapes.Policies:
    """Show the set in force here, what each process judges by, and in what processes differ."""
    view: shapes.Policies = {
        "configured": found.is_configured,
        "valid": not found.problems,
        "problems": list(found.problems),
        "set_hash": found.policies.hash,
        "file_time": time(found.file_time),
        "loaded_at": time(found.loaded_at),
        **definition(found.policies.definition),
        "processes": [_process(each) for each in processes],
        "differences": list(differences),
    }
    return present(view)


def definition(shown: Definition) -> shapes.PolicyDefinition:
    """Show what a set consists of, with all presets and sets filled in."""
    view: shapes.PolicyDefinition = {
        "default": shown.default,
        "per_second": shown.per_second,
        "notices": shown.notices,
        "poison": {"crashes": shown.crashes},
        "classify": [_reason(each) for each in shown.classify],
        "rules": [_rule(each) for each in shown.rules],
    }
    return present(view)


def _reason(rule: ReasonRule) -> shapes.ReasonRule:
    searched = rule.message.pattern if isinstance(rule.message, Pattern) else rule.message
    view: shapes.ReasonRule = {
        "reason": rule.reason,
        "queue": list(rule.queue) or None,
        "message_type": list(rule.message_type) or None,
        "exception": list(rule.exception) or None,
        "failure_reason": list(rule.failure_reason) or None,
        "built_in": list(rule.built_in) or None,
        "message": searched,
    }
    return present(view)


def _rule(rule: Rule) -> shapes.PolicyRule:
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


def _backoff(backoff: Backoff) -> shapes.Backoff:
    match backoff:
        case Exponential(first=first, factor=factor, cap=cap):
            growing: shapes.Backoff = {
                "kind": "exponential",
                "first": show_duration(first),
                "factor": factor,
                "cap": None if cap == LONGEST else show_duration(cap),
            }
            return present(growing)
        case Linear(first=first, step=step, cap=cap):
            growing = {
                "kind": "linear",
                "first": show_duration(first),
                "step": show_duration(step),
                "cap": None if cap == LONGEST else show_duration(cap),
            }
            return present(growing)
        case Fixed(first=first):
            return {"kind": "fixed", "first": show_duration(first)}
        case ListedDelays(delays=delays):
            return {"kind": "list", "delays": [show_duration(each) for each in delays]}
        case _ as never:
            assert_never(never)


def _jitter(jitter: Jitter) -> Spread | shapes.AdditiveJitter:
    match jitter:
        case Additive(most=most):
            return {"additive": show_duration(most)}
        case _:
            return jitter


def _process(found: JudgingProcess) -> shapes.JudgingProcess:
    view: shapes.JudgingProcess = {
        "session_id": found.session_id,
        "instance": found.instance,
        "host": found.host,
        "pid": found.pid,
        "set_hash": found.set_hash,
        "file_time": time(found.file_time),
        "loaded_at": time(found.loaded_at),
        "problems": list(found.problems),
        "seen_at": time(found.seen_at),
    }
    return present(view)


def simulated(result: SimulatedBefore, policies: PolicySet) -> shapes.Simulation:
    """Show what other policies would have decided, beside what was decided."""
    found = result.found
    view: shapes.Simulation = {
        "set_hash": policies.hash,
        "judged": found.judged,
        "changed": sum(count for each, count in found.counts.items() if each.old != each.new),
        "oldest": time(found.oldest),
        "stopped": result.stopped,
        "counts": [
            {"old": _verdict(each.old), "new": _verdict(each.new), "count": count}
            for each, count in found.counts.items()
        ],
        "samples": [_sample(each) for each in found.samples],
    }
    return present(view)


def _verdict(
    verdict: RuleDecision, reason: str | None = None, why: str | None = None
) -> shapes.RuleDecision:
    view: shapes.RuleDecision = {
        "rule": verdict.rule,
        "decision": verdict.decision,
        "reason": reason,
        "why": why,
    }
    return present(view)


def _sample(sample: Sample) -> shapes.SimulatedSample:
    failure, change = sample.failure, sample.change
    return {
        "id": failure.unique_message_id,
        "time": time(failure.received_at),
        "queue": failure.facts.queue,
        "failures": failure.failures,
        "old": _verdict(change.old, failure.reason),
        "new": _verdict(change.new, sample.reason, sample.why),
    }


router = Routes(prefix="/api/policies", tags=["policies"])


@router.get("")
def get_policies(request: Request, parts: Parts) -> Answer[shapes.Policies]:
    """Return the policies in force, their rules in order, and what each process judges by."""
    processes = list_judging_processes(parts.db)
    differences = find_differences(list_processes(parts.db))
    return answer(request, shown_policies(parts.policies(), processes, differences))


class SimulationBody(BaseModel):
    """What POST simulate takes: how far back, and other policies than those in force."""

    model_config = ConfigDict(extra="forbid")

    since: Annotated[Duration, Field(json_schema_extra={"default": "7d"})] = timedelta(days=7)
    policies: dict[str, Any] | None = None


@router.post("/simulate", status_code=200, name="simulate_policies")
def simulate(body: SimulationBody, parts: Parts) -> Answer[shapes.Simulation] | Refusal:
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


def _wrong(error: ConfigurationError) -> Refusal:
    """Name every problem with its place: `body.policies.rules[0].attempts`."""
    places = [line.partition(": ")[::2] for line in error.problems]
    errors = [{"field": f"body.{place}", "reason": reason} for place, reason in places]
    detail = f"The policies are wrong: {'; '.join(error.problems)}."
    return problem(422, detail, errors=errors)
