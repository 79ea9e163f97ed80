"""`retrier policies`: checks a file of policies, and shows those in force."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from retrier.api.shapes.service import (
    DecisionCount,
    JudgingProcess,
    Policies,
    PolicyRule,
    RuleDecision,
    SimulatedSample,
    Simulation,
)
from retrier.cli.command import AsJson, CalledService, command, make_app, printer_of, tools_of
from retrier.cli.printer import Column, Printer, counted, moment, short_id
from retrier.cli.selection import duration
from retrier.cli.settings import Config, EnvFile, load_for_policies
from retrier.errors import ConfigurationError
from retrier.policy import words
from retrier.policy.policy_set import InForce, PolicySet
from retrier.policy.words import Told, plain_number
from retrier.settings import Settings, find_policy_warnings, make_definition, read_file

_RULES = (
    Column(title="rule"),
    Column(title="attempts", number=True),
    Column(title="back-off", flexible=True),
    Column(title="then"),
    Column(title="never", flexible=True),
    Column(title="matches", flexible=True),
)
_PROCESSES = (
    Column(title="instance"),
    Column(title="host"),
    Column(title="pid", number=True),
    Column(title="set"),
    Column(title="file of"),
    Column(title="problems", number=True),
)
_COUNTS = (
    Column(title="failures", number=True),
    Column(title="decided"),
    Column(title="would be"),
)
_SAMPLES = (
    Column(title="id"),
    Column(title="queue", flexible=True),
    Column(title="n", number=True),
    Column(title="decided"),
    Column(title="would be"),
    Column(title="reason"),
)


def show_policies(printer: Printer, found: Policies) -> None:
    """Print the set, its rules in the order in which they are asked, and who judges by which."""
    if not found["configured"]:
        printer.line("no policies: every failed message waits for a person")
    else:
        _show_set(printer, found)
        printer.heading("rules, the first that matches decides")
        printer.table(_RULES, map(_row, found["rules"]))
    for problem in found.get("problems", ()):
        printer.note(f"not in force: {problem}")
    for difference in found.get("differences", ()):
        printer.note(f"the processes differ: {difference}")
    if found.get("processes"):
        printer.heading("processes")
        printer.table(_PROCESSES, map(_process, found["processes"]))


def explain_policies(printer: Printer, found: Policies) -> None:
    """Print for each rule when it retries, and what comes after that."""
    for rule in found["rules"]:
        printer.line(f"{rule['name']}: {explain(rule)}")
    gives_up = found["default"] == "dead"
    printer.line(f"no rule matches: {'dead at once' if gives_up else 'waits for a person'}")


def explain(rule: PolicyRule) -> str:
    """Return in words what a rule does: "after 5-10 s, 10-15 s, then dead"."""
    delays = [(each["shortest"], each["longest"]) for each in rule["delays"]]
    told = Told(
        attempts=rule["attempts"],
        delays=delays,
        then=rule["then"],
        never=rule["never"],
        only=rule.get("only", ()),
    )
    stream = "; in the order of its stream" if rule["stream"] == "strict" else ""
    return f"{words.explain(told)}{stream}"


def _show_set(printer: Printer, found: Policies) -> None:
    printer.sheet(
        {
            "set": found["set_hash"][:8],
            "file of": moment(found.get("file_time")) or None,
            "default": found["default"],
            "per second": found["per_second"],
            "notices": found.get("notices"),
            "poison": f"after more than {found['poison']['crashes']} crashes",
            "reasons": f"{len(found['classify'])} of its own" if found["classify"] else None,
        }
    )


def _row(rule: PolicyRule) -> tuple[object, ...]:
    jitter = rule["jitter"]
    spread = "" if jitter == "none" else f", jitter {_plain(jitter)}"
    match = "; ".join(f"{name} {', '.join(globs)}" for name, globs in rule["match"].items())
    only = [f"all but {', '.join(rule['only'])}"] if rule.get("only") else []
    never = ", ".join([*rule["never"], *only])
    backoff = f"{_plain(rule['backoff'])}{spread}"
    return rule["name"], rule["attempts"], backoff, rule["then"], never, match or "all"


def _plain(value: object) -> str:
    match value:
        case {"kind": kind, **others}:
            return f"{kind} {_plain(others)}"
        case dict():
            return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
        case list():
            return " ".join(map(_plain, value))
        case float():
            return plain_number(value)
        case _:
            return str(value)


def _process(found: JudgingProcess) -> tuple[object, ...]:
    return (
        found["instance"],
        found["host"],
        found["pid"],
        found["set_hash"][:8],
        moment(found.get("file_time")) or "",
        len(found["problems"]),
    )


def show_simulation(whose: str, printer: Printer, found: Simulation) -> None:
    """Print how many failures would be decided differently by `whose` policies, and some of them."""
    if not found["judged"]:
        printer.line("no failure was stored in that time")
        return
    printer.line(
        f"{counted(found['judged'], 'failure')} judged, back to {moment(found['oldest'])}: "
        f"{found['changed']:,} would be decided differently by {whose} "
        f"(set {found['set_hash'][:8]})"
    )
    if "stopped" in found:
        printer.note(f"it stopped {found['stopped']}: older ones were not judged")
    printer.heading("decisions")
    printer.table(_COUNTS, map(_count, found["counts"]))
    if found["samples"]:
        printer.heading("for example")
        printer.table(_SAMPLES, map(_sample, found["samples"]))


def _count(found: DecisionCount) -> tuple[object, ...]:
    return f"{found['count']:,}", _verdict(found["old"]), _verdict(found["new"])


def _sample(found: SimulatedSample) -> tuple[object, ...]:
    old, new = _verdict(found["old"]), _verdict(found["new"])
    return (
        short_id(found["id"]),
        found["queue"],
        found["failures"],
        old,
        new,
        found["new"]["reason"],
    )


def _verdict(found: RuleDecision) -> str:
    rule = f" by {found['rule']}" if "rule" in found else ""
    return f"{found['decision']}{rule}"


app = make_app("Look at the policies that retry by themselves.")

Explain = Annotated[
    bool, typer.Option("--explain", help="Show when each rule retries, and what comes after that.")
]


@app.command(epilog="Example: retrier policies check --config retrier.yaml")
@command
def check(
    ctx: typer.Context, config: Config = None, _env_file: EnvFile = None, *, as_json: AsJson = False
) -> None:
    """Check the policies of a file, without a service.

    Every problem is listed, and the command ends with 2. What is allowed and can hardly be meant is
    a warning.
    """
    settings, printer = load_for_policies(ctx, config), printer_of(ctx, as_json=as_json)
    section = settings.policies
    warnings = [] if section is None else list(find_policy_warnings(section))
    policies = _policies_of(settings)
    if as_json:
        printer.document(
            {"ok": True, "warnings": warnings, "set_hash": policies.hash}
            | {"configured": section is not None, "rules": len(policies.definition.rules)}
        )
        return
    for warning in warnings:
        printer.note(f"warning: {warning}")
    if section is None:
        printer.line("policies: none; every failed message waits for a person")
    else:
        rules = counted(len(policies.definition.rules), "rule")
        printer.line(f"policies: ok, {rules}, set {policies.hash[:8]}")


@app.command(
    "list",
    epilog="""
    \b
    Examples:
      retrier policies list
      retrier policies list --explain --config retrier.yaml
    """,
)
@command
def list_policies(
    ctx: typer.Context,
    service: CalledService,
    config: Config = None,
    _env_file: EnvFile = None,
    *,
    explain: Explain = False,
) -> None:
    """Show the policies in force, of a service or of a file."""
    if config is None:
        with service.open(ctx) as api:
            found = api.find(Policies, "policies")
    else:
        settings = load_for_policies(ctx, config)
        # Slow to load, and only needed for settings that no service has read.
        from retrier.api.policies import shown_policies as show_as_json  # noqa: PLC0415

        configured = settings.policies is not None
        now = tools_of(ctx).clock.now()
        in_force = InForce(policies=_policies_of(settings), is_configured=configured, loaded_at=now)
        found = show_as_json(in_force, ())
    printer = service.printer(ctx)
    printer.show(found, explain_policies if explain else show_policies)


def _policies_of(settings: Settings) -> PolicySet:
    section = settings.policies
    return PolicySet(None if section is None else make_definition(section))


File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="Settings whose section policies is tried; without it: those in force."
    ),
]
Since = Annotated[
    str,
    typer.Option(
        "--since", parser=duration, metavar="TIME", help="How far back: 12h, 7d; 7d by default."
    ),
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier policies simulate --since 7d new.yaml
      retrier policies simulate --since 1d --json | jq .counts
    """
)
@command
def simulate(
    ctx: typer.Context, service: CalledService, file: File = None, since: Since = "7d"
) -> None:
    """Judge stored failures by other policies.

    It shows what would be decided differently. Nothing is changed. At most the newest 100,000 failures are judged, for at most 30 seconds.
    """
    printer = service.printer(ctx)
    asked = {"since": since} | ({} if file is None else {"policies": _read_policies(file)})
    with service.open(ctx) as api:
        found = api.look(Simulation, ("policies", "simulate"), asked)
    whose = "the policies in force" if file is None else f"those of {file}"
    printer.show(found, partial(show_simulation, whose))


def _read_policies(file: Path) -> Any:
    """Return the section of a file as it is written; the service checks it."""
    tree, problems = read_file(file)
    if problems:
        raise ConfigurationError(problems)
    if "policies" not in tree:
        raise ConfigurationError([f"{file}: has no section policies"])
    # YAML has values that JSON has not, such as dates: where they are wrong, that is told.
    return json.loads(json.dumps(tree["policies"], default=str))
