"""Policies: the set in force, who judges by which, and what others would have decided."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from re import Pattern

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.errors import ConfigurationError
from retrier.policy.policy_set import Definition, InForce, Match, PolicySet, Rule, Unmatched
from retrier.policy.simulation import RuleDecision, Sample
from retrier.policy.words import Told, explain
from retrier.store.policies import JudgingProcess, SimulatedBefore, list_judging_processes
from retrier.web.forms import Form, SentForm
from retrier.web.page import show
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import DISPOSITIONS, plural

SHOWN_DELAYS = 50
SHORT_HASH = 8
SINCE = {
    "1h": "the last hour",
    "1d": "the last day",
    "7d": "the last 7 days",
    "30d": "the last 30 days",
}
"""How far back a simulation may look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One rule: what it matches, and what it does."""

    name: str
    matches: str
    does: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRow:
    """A reason of the settings, and which failures get it."""

    reason: str
    matches: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process, and the set by which it judges; `is_other` if that is not the one shown here."""

    told: JudgingProcess
    short_hash: str
    is_other: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow:
    """How many failures were decided in one way, and would be in another."""

    count: int
    old: str
    new: str
    is_change: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One failure that would be decided differently."""

    unique_id: str
    at: datetime
    queue: str
    failures: int
    old: str
    new: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationView:
    """What a simulation found."""

    short_hash: str
    judged: int
    changed: int
    oldest: datetime | None
    stopped: str | None
    counts: Sequence[CountRow]
    samples: Sequence[SampleRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """All that the page shows. `text` is what stands in the form, `wrong` its problems."""

    found: InForce
    short_hash: str
    facts: Sequence[tuple[str, str]]
    rules: Sequence[RuleRow]
    unmatched: str
    reasons: Sequence[ReasonRow]
    processes: Sequence[ProcessRow]
    text: str
    since: str
    wrong: Sequence[str] = ()
    simulated: SimulationView | None = None

    @property
    def since_names(self) -> Mapping[str, str]:
        """How far back a simulation may look."""
        return SINCE


def policy_view(
    found: InForce,
    processes: Sequence[JudgingProcess],
    text: str,
    since: str,
    *,
    wrong: Sequence[str] = (),
    simulated: SimulationView | None = None,
) -> PolicyView:
    """Return the set in force and who judges, with the form and what came of it."""
    definition, own = found.policies.definition, found.policies.hash
    return PolicyView(
        found=found,
        short_hash=own[:SHORT_HASH],
        facts=list(_facts(definition)),
        rules=[_rule(each) for each in definition.rules],
        unmatched=_unmatched(definition),
        reasons=[
            ReasonRow(reason=each.reason, matches=_globs(each, _OF_REASONS))
            for each in definition.classify
        ],
        processes=[
            ProcessRow(
                told=each,
                short_hash=each.set_hash[:SHORT_HASH],
                is_other=each.set_hash != own,
            )
            for each in processes
        ],
        text=text,
        since=since,
        wrong=wrong,
        simulated=simulated,
    )


def _facts(definition: Definition) -> Iterator[tuple[str, str]]:
    yield "Retries by themselves", f"{definition.per_second:,} a second at most"
    yield "Poison", f"after more than {plural(definition.crashes, 'crash', 'crashes')} of a worker"
    if definition.notices:
        yield "Notices of dead messages go to", definition.notices


def _unmatched(definition: Definition) -> str:
    return "dead at once" if definition.default is Unmatched.DEAD else "waits for a person"


def _rule(rule: Rule) -> RuleRow:
    delays = islice(rule.delays(), SHOWN_DELAYS)
    told = Told(
        attempts=rule.attempts,
        delays=[(each.shortest.total_seconds(), each.longest.total_seconds()) for each in delays],
        then=rule.then.value,
        never=rule.never,
        only=rule.only,
    )
    return RuleRow(name=rule.name, matches=_globs(rule.match, Match.__slots__), does=explain(told))


_OF_REASONS = ("queue", "message_type", "exception", "failure_reason", "message", "built_in")


def _globs(conditions: object, names: Sequence[str]) -> str:
    found = [
        f"{name.replace('_', ' ')} {_plain(value)}"
        for name in names
        if (value := getattr(conditions, name))
    ]
    return "; ".join(found) or "every failure"


def _plain(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(value)
        case Pattern():
            return f"has {value.pattern}"
        case _:
            return f"has {value}"


def simulation_view(result: SimulatedBefore, set_hash: str) -> SimulationView:
    """Return what other policies would have decided, changes first."""
    found = result.found
    rows = [
        CountRow(count=count, old=_verdict(each.old), new=_verdict(each.new), is_change=is_change)
        for each, count in found.counts.items()
        for is_change in [each.old != each.new]
    ]
    return SimulationView(
        short_hash=set_hash[:SHORT_HASH],
        judged=found.judged,
        changed=sum(each.count for each in rows if each.is_change),
        oldest=found.oldest,
        stopped=result.stopped,
        counts=sorted(rows, key=lambda each: not each.is_change),
        samples=[_sample(each) for each in found.samples],
    )


def _sample(sample: Sample) -> SampleRow:
    failure = sample.failure
    return SampleRow(
        unique_id=failure.unique_message_id,
        at=failure.received_at,
        queue=failure.facts.queue,
        failures=failure.failures,
        old=_verdict(sample.change.old),
        new=_verdict(sample.change.new),
        why=sample.why or sample.reason,
    )


def _verdict(verdict: RuleDecision) -> str:
    decision, _ = DISPOSITIONS[verdict.decision]
    return decision if verdict.rule is None else f"{decision}, by {verdict.rule}"


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
    text = parts.policy_text() or EXAMPLE
    view = policy_view(parts.policies(), list_judging_processes(parts.db), text, _SINCE)
    return show(request, "policies.html", view, current=_HERE)


@router.post("/simulate")
def simulate(request: Request, parts: Parts, form: SentForm) -> Response:
    """Judge stored failures by the policies of the form, and compare. Nothing is changed."""
    text = _read_text(form)
    since = form.text("since") if form.text("since") in SINCE else _SINCE
    wrong: tuple[str, ...] = ()
    simulated = None
    try:
        simulated = _simulate(parts, parts.read_policies(text), since)
    except ConfigurationError as error:
        wrong = error.problems
    view = policy_view(
        parts.policies(),
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
    found = parts.simulate(policies, int(since[:-1]) * _UNITS[since[-1]])
    return simulation_view(found, policies.hash)
