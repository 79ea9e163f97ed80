"""Dataclasses of options are spread into single ones and put together again."""

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from retrier.cli.command import command, spread
from retrier.errors import ServiceUnavailable
from tests.support.command_line import CommandLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Two options."""

    city: Annotated[str, typer.Option("--city")]
    zone: Annotated[int, typer.Option("--zone")] = 1


@pytest.fixture
def seen() -> list[object]:
    return []


@pytest.fixture
def app(seen: list[object]) -> typer.Typer:
    made = typer.Typer()

    @made.command()
    @command
    def go(name: str, place: Place, *, fast: bool = False) -> None:
        seen.append((name, place, fast))

    return made


def test_a_command_gets_its_options_as_one_value(app: typer.Typer, seen: list[object]) -> None:
    result = CliRunner().invoke(app, ["ada", "--city", "Turin", "--zone", "3", "--fast"])

    assert result.exit_code == 0
    assert seen == [("ada", Place(city="Turin", zone=3), True)]


def test_defaults_are_those_of_the_dataclass(app: typer.Typer, seen: list[object]) -> None:
    CliRunner().invoke(app, ["ada", "--city", "Turin"])

    assert seen == [("ada", Place(city="Turin", zone=1), False)]


def test_a_field_without_a_default_is_required(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["ada"]).exit_code == 2


def test_the_signature_has_single_parameters() -> None:
    def go(place: Place, *, fast: bool = False) -> None:
        """Do nothing."""

    assert list(signature(spread(go)).parameters) == ["city", "zone", "fast"]


def test_an_error_becomes_a_line_and_an_exit_code() -> None:
    made = typer.Typer()

    @made.command()
    @command
    def go() -> None:
        raise ServiceUnavailable("nobody there")

    result = CliRunner().invoke(made, [])

    assert (result.exit_code, result.stderr) == (3, "nobody there\n")


LONG = "x" * 5000


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("retry --all --plan abc", "--plan"),
        ("archive --all --plan abc", "--plan"),
        ("pending retry --all --plan abc", "--plan"),
        ("imports retry --all --plan abc", "--plan"),
        ("streams release x --queue orders --plan abc", "--plan"),
        ("retry --all --rate 999999999", "--rate"),
        ("retry --all --limit 99999999999", "--limit"),
        (f"retry --all --why {LONG}", "--why"),
        ("retry --all --destination error", "--destination"),
        ("retry --all --drop-header *", "--drop-header"),
        ("retry --all --in 9999d", "--in"),
        (f"retry --all --idempotency-key {LONG}", "--idempotency-key"),
        (f"retry --stream {LONG}", "--stream"),
        ("retry --failed-from 2026-01-02 --failed-to 2026-01-01", "--failed-to"),
        (f"archive --all --why {LONG}", "--why"),
        ("errors list --status dead --status archived", "--status"),
        ("errors list --archived-by nonsense", "nonsense"),
        (f"groups --text {LONG}", "--text"),
        ("breakers open orders --for 10d", "--for"),
        ("recover --since 2099-01-01", "--since"),
        ("redirects set a a", "redirect"),
        ("imports list --queue=", "--queue"),
    ],
    ids=lambda given: given[:60],
)
def test_a_value_that_the_service_cannot_take_is_a_mistake_of_usage(
    cli: CommandLine, words: str, named: str
) -> None:
    result = cli.run(*words.split())

    assert result.exit_code == 2, result.output
    assert named in result.stderr
    assert not any(word in result.stderr for word in ("body", "query.", "Content-Type", "JSON"))
