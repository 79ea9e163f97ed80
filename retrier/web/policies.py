"""Policies: the set in force, which process has which, and what others would have decided."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from re import Pattern

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.errors import ConfigurationError
from retrier.policy.policy_set import Definition, Match, Rule, Unmatched
from retrier.policy.simulation import RuleDecision
from retrier.policy.words import Told, explain
from retrier.store.policies import SimulatedBefore, list_judging_processes
from retrier.web.forms import Form, SentForm
from retrier.web.page import show
from retrier.web.parts import PageParts, Parts
from retrier.web.wording import DISPOSITIONS, plural

SHOWN_DELAYS = 50
SINCE = {
    "1h": "the last hour",
    "1d": "the last day",
    "7d": "the last 7 days",
    "30d": "the last 30 days",
}
"""How far back a simulation may look."""


def _facts(definition: Definition) -> Iterator[tuple[str, str]]:
    yield "Retries by themselves", f"{definition.per_second:,} a second at most"
    yield "Poison", f"after more than {plural(definition.crashes, 'crash', 'crashes')} of a worker"
    if definition.notices:
        yield "Notices of dead messages go to", definition.notices


def _rule(rule: Rule) -> str:
    """Return what a rule does, in words."""
    delays = islice(rule.delays(), SHOWN_DELAYS)
    told = Told(
        attempts=rule.attempts,
        delays=[(each.shortest.total_seconds(), each.longest.total_seconds()) for each in delays],
        then=rule.then.value,
        never=rule.never,
        only=rule.only,
    )
    return explain(told)


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


def _verdict(verdict: RuleDecision) -> str:
    """Return what was decided, or would be, and by which rule."""
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
    return _show(request, parts, parts.policy_text() or EXAMPLE, _SINCE)


@router.post("/simulate")
def simulate(request: Request, parts: Parts, form: SentForm) -> Response:
    """Judge stored failures by the policies of the form, and compare. Nothing is changed."""
    text = _read_text(form)
    since = form.text("since") if form.text("since") in SINCE else _SINCE
    try:
        policies = parts.read_policies(text)
    except ConfigurationError as error:
        return _show(request, parts, text, since, wrong=error.problems)
    simulated = parts.simulate(policies, int(since[:-1]) * _UNITS[since[-1]])
    return _show(request, parts, text, since, simulated=(policies.hash, simulated))


def _read_text(form: Form) -> str:
    text = next(iter(form.values("policies")), "")
    if len(text) > _LONGEST_TEXT:
        raise HTTPException(413, f"Policies have at most {_LONGEST_TEXT:,} characters here.")
    return text.replace("\r\n", "\n")


def _show(
    request: Request,
    parts: PageParts,
    text: str,
    since: str,
    *,
    wrong: Sequence[str] = (),
    simulated: tuple[str, SimulatedBefore] | None = None,
) -> Response:
    """Show the set in force and the processes that have one, with the form and what came of it.

    `text` is what stands in the form, `wrong` its problems; `simulated` has the hash of its set.
    """
    in_force = parts.policies()
    definition = in_force.policies.definition
    set_hash, found = simulated or ("", None)
    counts = [] if found is None else list(found.found.counts.items())
    return show(
        request,
        "policies.html",
        current=_HERE,
        status=422 if wrong else 200,
        in_force=in_force,
        facts=list(_facts(definition)),
        rules=[
            (each.name, _globs(each.match, Match.__slots__), _rule(each))
            for each in definition.rules
        ],
        unmatched="dead at once" if definition.default is Unmatched.DEAD else "waits for a person",
        reasons=[(each.reason, _globs(each, _OF_REASONS)) for each in definition.classify],
        processes=list_judging_processes(parts.db),
        text=text,
        since=since,
        since_names=SINCE,
        wrong=wrong,
        simulated=found,
        simulated_hash=set_hash,
        # Changes first.
        counts=sorted(counts, key=lambda each: each[0].old == each[0].new),
        changed=sum(count for each, count in counts if each.old != each.new),
        in_words=_verdict,
    )
