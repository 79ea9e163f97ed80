"""`retrier policies`: checks a file of policies, and shows those in force."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from retrier.cli.command import command, make_app, tools_of
from retrier.cli.options import AsJson, Config, EnvFile, Service, load_for_policies
from retrier.cli.printer import counted
from retrier.cli.selection_options import duration
from retrier.cli.views.policies import explain_policies, show_policies, show_simulation
from retrier.errors import ConfigurationError
from retrier.policy.policy_set import InForce, PolicySet
from retrier.settings import Settings, find_policy_warnings, make_definition, read_file

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
    settings, printer = load_for_policies(ctx, config), tools_of(ctx).printer
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
    service: Service,
    config: Config = None,
    _env_file: EnvFile = None,
    *,
    explain: Explain = False,
) -> None:
    """Show the policies in force, of a service or of a file."""
    if config is None:
        with service.open(ctx) as api:
            found = api.find("policies")
    else:
        settings = load_for_policies(ctx, config)
        # Slow to load, and only needed for settings that no service has read.
        from retrier.api.views.policies import policies as show_as_json  # noqa: PLC0415

        configured = settings.policies is not None
        now = tools_of(ctx).clock.now()
        in_force = InForce(policies=_policies_of(settings), is_configured=configured, loaded_at=now)
        found = show_as_json(in_force, ())
    printer = tools_of(ctx).printer
    if service.as_json:
        printer.document(found)
    elif explain:
        explain_policies(printer, found)
    else:
        show_policies(printer, found)


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
def simulate(ctx: typer.Context, service: Service, file: File = None, since: Since = "7d") -> None:
    """Judge stored failures by other policies.

    It shows what would be decided differently. Nothing is changed. At most the newest 100,000 failures are judged, for at most 30 seconds.
    """
    printer = tools_of(ctx).printer
    asked = {"since": since} | ({} if file is None else {"policies": _read_policies(file)})
    with service.open(ctx) as api:
        found = api.look(("policies", "simulate"), asked)
    if service.as_json:
        printer.document(found)
    else:
        show_simulation(printer, found)


def _read_policies(file: Path) -> Any:
    """Return the section of a file as it is written; the service checks it."""
    tree, problems = read_file(file)
    if problems:
        raise ConfigurationError(problems)
    if "policies" not in tree:
        raise ConfigurationError([f"{file}: has no section policies"])
    # YAML has values that JSON has not, such as dates: where they are wrong, that is told.
    return json.loads(json.dumps(tree["policies"], default=str))
