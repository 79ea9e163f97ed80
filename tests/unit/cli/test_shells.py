"""Completion as the shells themselves ask for it, by the lines that `_RETRIER_COMPLETE` prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent

ASKING = {
    "bash": 'source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
    '_retrier_completion retrier; printf "%s\\n" "${COMPREPLY[@]}"',
    # What zsh itself would lay out is shown as it is.
    "zsh": 'compdef() {}; _arguments() { print -r -- "$@"; }; source "$1"; '
    "words=(${=2}); CURRENT=${#words}; _retrier_completion",
    "fish": "source $argv[1]; complete --do-complete $argv[2]",
}
"""What a shell runs with the path of those lines and the typed line."""


def ask(shell: str, typed: str, folder: Path) -> str:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)}
    printed = subprocess.run(
        [BIN / "retrier"],
        env={**environ, "_RETRIER_COMPLETE": f"source_{shell}"},
        capture_output=True,
        check=True,
    )
    lines = folder / "completion"
    lines.write_bytes(printed.stdout)
    names = [] if shell == "fish" else [shell]  # the others take the first one as $0
    command = [program, "-c", ASKING[shell], *names, lines, typed]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ASKING)
def test_a_shell_offers_commands_and_values(shell: str, tmp_path: Path) -> None:
    assert "batches" in ask(shell, "retrier ba", tmp_path)
    assert "retryIssued" in ask(shell, "retrier errors list --status retr", tmp_path)
