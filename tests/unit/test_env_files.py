"""A file of variables: every value is what stands there, whatever a shell would make of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from retrier.errors import ConfigurationError
from retrier.settings import read_env_file

URL = "postgresql://retrier:p$$w#`x`@db.example/retrier?sslmode=prefer&application_name=x"


def read(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / "secrets.env"
    file.write_text(text)
    return read_env_file(file)


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_an_address_is_what_stands_there(tmp_path: Path, quote: str) -> None:
    assert read(tmp_path, f"A={quote}{URL}{quote}\n") == {"A": URL}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=", ""),
        ("A=''", ""),
        ("export A=b", "b"),
        ("A = b c ", "b c"),
        ("A=' b '", " b "),
        ("A=b#c # d", "b#c # d"),
        ("A=b'c\"d", "b'c\"d"),
        ('A="b\'c"', "b'c"),
        ("A=b\\nc", "b\\nc"),
        ("A=b=c", "b=c"),
        ("\ufeffA=b", "b"),
    ],
)
def test_a_line_is_read(tmp_path: Path, line: str, value: str) -> None:
    assert read(tmp_path, line) == {"A": value}


def test_what_says_nothing_is_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, "\n# A=b\n; A=b\n   \nB=c") == {"B": "c"}


def test_every_wrong_line_is_named_without_its_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        read(tmp_path, "A='secret\nsecret\n1A=secret\nB=\"secret'\n")

    file = tmp_path / "secrets.env"
    assert wrong.value.problems == (
        f"{file}, line 1: the quote of A is not closed",
        f"{file}, line 2: must be NAME=value",
        f"{file}, line 3: must be NAME=value",
        f"{file}, line 4: the quote of B is not closed",
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--env-file: cannot read"):
        read_env_file(tmp_path / "none")


def test_a_command_uses_it_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / "secrets.env"
    file.write_text("RETRIER_DATABASE__URL='sqlite:///from&file.db'\nRETRIER_INSTANCE=file\n")
    command = [sys.executable, "-m", "retrier", "verify", "--env-file", str(file)]

    results = [
        subprocess.run(
            command,
            env={**os.environ, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        for more in ({}, {"RETRIER_DATABASE__URL": "sqlite:///from_environment.db"})
    ]

    assert f"there is no database at {tmp_path}/from&file.db" in results[0].stderr
    assert f"there is no database at {tmp_path}/from_environment.db" in results[1].stderr
