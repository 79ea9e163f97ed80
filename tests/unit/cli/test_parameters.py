"""Dataclasses of options are spread into single ones and put together again."""

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from retrier.cli.command import command, spread
from retrier.errors import ServiceUnavailable


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
