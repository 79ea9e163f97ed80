"""What each command of the command line prints, and how it ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import Result

from retrier.domain.audit import (
    BEGUN,
    ENDED,
    AuditHead,
    AuditRecord,
    AuditType,
    head_after,
    make_audit_line,
)
from tests.golden.asked import in_lines
from tests.golden.story import Known
from tests.golden.world import World
from tests.support.commands import ALL, COMMANDS

WRONG = "instance: {}\ncolour: red\npolicies: {default: retry, rules: [{match: {}}]}\n"
TRIED = "policies: {rules: [{name: rest, match: {}, preset: outbox}]}\n"


@dataclass(frozen=True, slots=True)
class Line:
    """A command as it is typed; `{order-1}` in it is an id. `agrees`: what a person says who is asked."""

    words: str
    agrees: bool | None = None


READS = [
    Line("groups"),
    Line("groups --classifier 'Message Type'"),
    Line("groups --classifier Colour"),
    Line("groups --field order"),
    Line("groups --field nobody"),
    Line("errors list"),
    Line("errors list --status unresolved --queue orders --ids"),
    Line("errors list --status nonsense"),
    Line("errors list --field order=4711"),
    Line("errors list --field order"),
    Line("errors list --limit 2 --page 1"),
    Line("errors list --limit 3 --text nothing"),
    Line("errors show {order-2}"),
    Line("errors show {hostile}"),
    Line("errors show order-1"),
    Line("errors show {nobody}"),
    Line("errors show 0"),
    Line("errors body {order-2}"),
    Line("errors body {empty}"),
    Line("errors body {nobody}"),
    Line("errors hosts"),
    Line("errors edit {order-2}"),
    Line("errors edit {order-2} --header Shop.Tenant=south"),
    Line("errors edit {nobody} --header a=b --yes"),
    Line("errors history {order-2}"),
    Line("errors history {order-2} --attempts"),
    Line("errors history {nobody}"),
    Line("history"),
    Line("events"),
    Line("events --kind retry_asked --limit 1"),
    Line("events --kind nonsense"),
    Line("processor"),
    Line("ledger"),
    Line("imports list"),
    Line("imports show {import-0}"),
    Line("imports show {import-3}"),
    Line("imports show {nobody}"),
    Line("pending list"),
    Line("pending list --older-than long"),
    Line("redirects list"),
    Line("views list"),
    Line("dialects test"),
    Line("views show nothing"),
    Line("errors list --view nothing"),
    Line("breakers list"),
    Line("streams list"),
    Line("streams show 'order 42' --queue orders"),
    Line("streams show nothing --queue orders"),
    Line("operations list"),
    Line("operations show {operation}"),
    Line("operations show {canary}"),
    Line("operations show {nobody}"),
    Line("batches list"),
    Line("batches show {batch}"),
    Line("batches show {nobody}"),
    Line("archive-operations list"),
    Line("archive-operations show {archiving}"),
    Line("archive-operations show {nobody}"),
    Line("policies list"),
    Line("policies list --explain"),
    Line("policies list --explain --config {config}"),
    Line("policies check --config {config}"),
    Line("policies check --config {wrong}"),
    Line("policies simulate {tried}"),
    Line("policies simulate {wrong}"),
    Line("db upgrade --config {config}"),
    Line("db copy --config {config} --to sqlite:///{folder}/copy.db"),
    Line("verify --config {config}"),
    Line("check --config {wrong}"),
    Line("run --config {wrong}"),
    Line("run --config {folder}/none.yaml"),
    Line("retry --all --dry-run"),
    Line("retry {order-2} --dry-run"),
    Line("archive --queue orders --dry-run"),
    Line("pending retry --all --dry-run"),
    Line("pending resolve --all --dry-run"),
    Line("imports retry --all --dry-run"),
    Line("imports retry --all --dialect esperanto"),
    Line("streams release 'order 42' --queue orders --dry-run"),
    Line("recover"),
    Line("search reindex --after 1000000"),
    Line("find nothing left"),
    Line("find {order-2}"),
    Line("find nobody at all"),
    Line("token list --config {config}"),
    Line("audit verify {audit}"),
    Line("audit verify {folder}/none.jsonl"),
    Line("logout"),
    Line("login"),
]
"""Each of them is recorded with --json, too."""

ACTS = [
    Line("retry"),
    Line("retry --all --queue orders"),
    Line("retry {order-2} --rate 0"),
    Line("retry {order-2} --user ada --user bob"),
    Line("retry {order-2} --why now --watch"),
    Line("retry {nobody}"),
    Line("retry --queue payments --limit 1 --in 2h --json"),
    Line("retry --queue fixed --canary 0"),
    Line("acknowledge {group}"),
    Line("acknowledge {nobody}"),
    Line("comment {group} 'ask the warehouse' --json"),
    Line("comment {group} ''"),
    Line("comment {group} --delete"),
    Line("comment {nobody} x"),
    Line("errors dead {step-10} --why 'it has no end'"),
    Line("errors dead {order-1} --why 'it has no end' --json"),
    Line("errors revive {dead-by-policy}"),
    Line("errors revive {order-6}"),
    Line("archive {payment-17} --why old"),
    Line("archive"),
    Line("unarchive {order-4} --json"),
    Line("resolve {fixed-21} --watch"),
    Line("archive-operations undo {archiving}"),
    Line("archive-operations undo {resolving}"),
    Line("operations pause {later}"),
    Line("operations pause {operation}"),
    Line("operations resume {later} --json"),
    Line("operations rate {later} 5"),
    Line("operations rate {later} fast"),
    Line("operations cancel {later}"),
    Line("operations cancel {operation}"),
    Line("operations show {alive} --watch"),
    Line("pending retry {order-3} --json"),
    Line("pending retry --all"),
    Line("pending retry --all", agrees=False),
    Line("pending resolve --all", agrees=True),
    Line("pending resolve --queue nothing --yes"),
    Line("imports retry {import-1} --destination orders"),
    Line("imports retry {import-0}"),
    Line("imports send {import-2} --to orders"),
    Line("imports send {import-3} --to nowhere --json"),
    Line("imports delete {import-3}"),
    Line("imports delete {import-3} --yes"),
    Line("redirects set a b"),
    Line("redirects set a c"),
    Line("redirects set invoices new --pending --json"),
    Line("redirects delete a"),
    Line("views delete nothing"),
    Line("redirects delete a --json"),
    Line("breakers open orders --for 2h --why 'it is moved'"),
    Line("breakers open orders --for 10d"),
    Line("breakers close payments --json"),
    Line("streams release 'order 42' --queue orders --id {step-11}"),
    Line("streams release nothing --queue orders"),
    Line("recover --retry"),
    Line("recover --since 2026-05-04T12:30:00Z --json"),
    Line("recover --retry --yes"),
    Line("recover --done"),
    Line("operations approve {operation}"),
    Line("operations approve {nobody} --json"),
    Line("operations refuse {operation}"),
    Line("operations refuse {nobody}"),
    # As a table they would be as wide as the name of the folder.
    Line("audit verify {audit} --head 0 --json"),
    Line("audit verify {changed} --json"),
    Line("token create --name deploy --role operator --queues 'orders*' --config {config}"),
    Line("token create --name deploy --role reader --config {config}"),
    Line("token create --name night --role reader --config {config} --json"),
    Line("token create --name 'no name' --role reader --config {config}"),
    Line("token create --name grafana --role reader --for-file"),
    Line("token create --name grafana --role reader --for-file --json"),
    Line("token revoke --name deploy --config {config}"),
    Line("token revoke --name nobody --config {config} --json"),
    Line("token list --config {config}"),
    Line("token list --config {config} --json"),
    Line("nothing"),
    Line("errors"),
    Line("--version"),
    Line("version"),
    Line("help ledger"),
    Line("groups --url http://localhost:1/elsewhere --token-file {folder}/none"),
]

ONLY_HELP = {"demo"}
"""It runs until it is stopped."""


def recorded(world: World, known: Known) -> dict[str, str]:
    """Run every command; return what it printed by what was typed."""
    found = {_title((*words, "--help")): _shown(world.run(*words, "--help")) for words in ALL}
    values = {**known, **_files(world)}
    for each in READS:
        for more in ((), ("--json",)):
            if not more or "--json" in _options(each.words):
                _run(world, Line(" ".join([each.words, *more])), values, found)
    for each in ACTS:
        world.clock.advance(1)
        _run(world, each, values, found)
    return found


def commands() -> set[str]:
    """Return every command."""
    return {" ".join(words) for words in COMMANDS}


def recorded_commands() -> set[str]:
    """Return the commands that are run."""
    return {_command(each.words) for each in (*READS, *ACTS)} | ONLY_HELP


def _run(world: World, line: Line, values: Known, found: dict[str, str]) -> None:
    title = _title((line.words,)) + ("" if line.agrees is None else f" (agrees: {line.agrees})")
    while title in found:
        title += " (again)"
    words = [_filled(each, values) for each in _split(line.words)]
    found[title] = _shown(world.run(*words, agrees=line.agrees))


def _files(world: World) -> Known:
    folder = world.config.parent
    files = {"wrong": folder / "wrong.yaml", "tried": folder / "tried.yaml"}
    files |= {name: folder / f"{name}.jsonl" for name in ("audit", "changed")}
    files["wrong"].write_text(WRONG)
    files["tried"].write_text(TRIED)
    audit = _audit(world)
    files["audit"].write_bytes(audit)
    files["changed"].write_bytes(audit.replace(b"retry", b"pause"))
    Path(folder / "copy.db").unlink(missing_ok=True)
    names = {name: str(path) for name, path in files.items()}
    return {**names, "config": str(world.config), "folder": str(folder)}


def _audit(world: World) -> bytes:
    """Return an audit of three lines."""
    head, lines = AuditHead(), b""
    for action in (BEGUN, "retry", ENDED):
        record = AuditRecord(action=action, type=AuditType.INFO)
        line = make_audit_line(record, head, world.clock.now(), "golden")
        head, lines = head_after(line, head.number + 1), lines + line + b"\n"
    return lines


def _split(words: str) -> list[str]:
    parts = words.split("'")
    return [
        word
        for number, part in enumerate(parts)
        for word in ([part] if number % 2 else part.split())
    ]


def _filled(word: str, values: Known) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _options(words: str) -> Sequence[str]:
    command = tuple(_command(words).split())
    return [name for parameter in ALL[command].params for name in parameter.opts]


def _command(words: str) -> str:
    split = words.split()
    longest = [" ".join(split[:size]) for size in (2, 1)]
    return next((each for each in longest if tuple(each.split()) in COMMANDS), words)


def _title(words: Sequence[str]) -> str:
    return " ".join(["retrier", *words])


def _shown(result: Result) -> str:
    parts = [f"exit code {result.exit_code}"]
    if result.exception is not None:
        parts.append(f"it failed: {result.exception!r}")
    for name, content in (("stdout", result.stdout_bytes), ("stderr", result.stderr_bytes)):
        if content:
            parts.append(f"--- {name}\n{in_lines(content).rstrip()}")
    return "\n".join(parts)
