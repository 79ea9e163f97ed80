"""retrier policies: a file is checked, and the set in force is shown and explained."""

import json
from pathlib import Path

import httpx
import pytest

from tests.support.command_line import CommandLine
from tests.support.factories import failure

POLICIES = """
policies:
  classify: [{set: gateway}]
  rules:
    - {name: gw, match: {queue: "conv*"}, preset: gateway}
    - {name: never, match: {reason: poison_message}, attempts: 0, then: manual}
    - {name: often, match: {queue: often}, preset: cooldown, cooldown: 2500ms, attempts: 100}
    - {name: rest, match: {}, preset: outbox}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "retrier.yaml"
    path.write_text(POLICIES)
    return path


def test_right_policies_are_told_with_their_set(cli: CommandLine, file: Path) -> None:
    (line,) = cli.lines("policies", "check", "--config", str(file))

    assert line.startswith("policies: ok, 4 rules, set ")


def test_every_problem_is_a_line_and_ends_it_with_2(cli: CommandLine, file: Path) -> None:
    file.write_text(
        "policies: {default: retry, rules: [{name: a, match: {}, attempts: 2}, {match: {}}]}"
    )

    result = cli.run("policies", "check", "--config", str(file))

    assert result.exit_code == 2
    assert sorted(result.stderr.splitlines()) == [
        "policies.default: must be wait or dead, is retry",
        "policies.rules[0].backoff: must be given, unless a preset gives it",
        "policies.rules[1].name: must be given",
    ]


def test_a_rule_that_an_earlier_one_covers_is_a_warning(cli: CommandLine, file: Path) -> None:
    file.write_text(POLICIES + "    - {name: late, match: {queue: late}, preset: outbox}\n")

    result = cli.run("policies", "check", "--config", str(file))

    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "warning: policies.rules[4]: never decides: rule rest matches all of it before"
    ]


def test_a_file_without_policies_is_right(cli: CommandLine, file: Path) -> None:
    file.write_text("instance: retrier")

    assert cli.lines("policies", "check", "--config", str(file)) == [
        "policies: none; every failed message waits for a person"
    ]


def test_a_check_may_be_one_document(cli: CommandLine, file: Path) -> None:
    found = json.loads(cli.run("policies", "check", "--config", str(file), "--json").stdout)

    assert (found["ok"], found["warnings"], found["configured"], found["rules"]) == (
        True,
        [],
        True,
        4,
    )


def test_it_is_explained_when_each_rule_retries(cli: CommandLine, file: Path) -> None:
    assert cli.lines("policies", "list", "--explain", "--config", str(file)) == [
        (
            "gw: after 5-10 s, 10-15 s, then dead; "
            "dead at once: all but GW_5XX, GW_TIMEOUT, IO_ERROR, UNKNOWN"
        ),
        "never: waits for a person at once",
        f"often: after {' '.join(['2.5'] * 50)} seconds, and 49 more, then dead",
        "rest: after 1 2 4 8 16 32 60 60 60 minutes, then dead",
        "no rule matches: waits for a person",
    ]


def test_what_no_rule_matches_may_be_dead(cli: CommandLine, file: Path) -> None:
    file.write_text("policies: {default: dead}")

    assert cli.lines("policies", "list", "--explain", "--config", str(file)) == [
        "no rule matches: dead at once"
    ]


def test_the_rules_are_listed_in_their_order(cli: CommandLine, file: Path) -> None:
    lines = cli.lines("policies", "list", "--config", str(file))

    rules = [line.split()[0] for line in lines[lines.index("") + 3 :]]
    assert rules == ["gw", "never", "often", "rest"]
    assert "exponential first 5s, factor 2, jitter additive 5s" in "\n".join(lines)


def test_a_list_of_delays_is_listed(cli: CommandLine, file: Path) -> None:
    file.write_text(
        "policies: {rules: [{name: a, match: {}, attempts: 2, jitter: full,"
        " backoff: {kind: list, delays: [1s, 2s]}}]}"
    )

    lines = cli.lines("policies", "list", "--config", str(file))

    assert "list delays 1s 2s, jitter full" in lines[-1]


def test_without_a_file_the_service_is_asked(cli: CommandLine) -> None:
    assert cli.lines("policies", "list") == ["no policies: every failed message waits for a person"]
    assert json.loads(cli.run("policies", "list", "--json").stdout)["configured"] is False


def test_what_the_service_says_of_others_is_shown(cli: CommandLine, file: Path) -> None:
    shown = json.loads(cli.run("policies", "list", "--config", str(file), "--json").stdout)
    process = {
        "instance": "retrier",
        "host": "other",
        "pid": 7,
        "set_hash": shown["set_hash"],
        "problems": ["x"],
    }
    answer = shown | {"processes": [process], "problems": ["policies.default: is wrong"]}
    ours = {"X-Particular-Version": "1.2.3"}
    cli.answer = lambda _request: httpx.Response(200, json=answer, headers=ours)

    result = cli.run("policies", "list")

    assert "retrier   other    7" in result.stdout
    assert result.stderr == "not in force: policies.default: is wrong\n"


def test_a_simulation_shows_what_would_be_decided(cli: CommandLine, file: Path) -> None:
    cli.api.receive(failure(), failure())

    lines = cli.lines("policies", "simulate", "--since", "3650d", str(file))

    assert lines[0].startswith("2 failures judged, back to ")
    assert "2 would be decided differently" in lines[0]
    assert "       2  manual   scheduled by rest" in lines
    assert len([line for line in lines if "scheduled by rest  UNKNOWN" in line]) == 2


def test_a_simulation_of_nothing_says_so(cli: CommandLine) -> None:
    assert cli.lines("policies", "simulate") == ["no failure was stored in that time"]


def test_a_simulation_that_stopped_says_where(cli: CommandLine) -> None:
    answer = {"judged": 1, "oldest": "2026-11-23T00:00:00Z", "changed": 0, "set_hash": "1" * 64}
    answer |= {"counts": [], "samples": [], "stopped": "after 30 seconds"}
    ours = {"X-Particular-Version": "1.2.3"}
    cli.answer = lambda _request: httpx.Response(200, json=answer, headers=ours)

    assert "it stopped after 30 seconds" in cli.run("policies", "simulate").stderr


def test_a_simulation_may_be_one_document(cli: CommandLine) -> None:
    assert json.loads(cli.run("policies", "simulate", "--json").stdout)["judged"] == 0


def test_wrong_policies_are_refused_with_every_problem(cli: CommandLine, file: Path) -> None:
    file.write_text("policies: {default: 2026-11-23, per_second: 0}")

    result = cli.run("policies", "simulate", str(file))

    assert result.exit_code == 2
    assert "policies.default: must be wait or dead, is 2026-11-23" in result.stderr
    assert "policies.per_second: must be between 1 and 1000000, is 0" in result.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [("instance: a", "has no section policies"), ("policies: [", "cannot be understood")],
)
def test_a_file_that_cannot_be_tried_ends_it_with_2(
    cli: CommandLine, file: Path, text: str, problem: str
) -> None:
    file.write_text(text)

    result = cli.run("policies", "simulate", str(file))

    assert result.exit_code == 2
    assert problem in result.stderr
    assert cli.requests == []
