"""Hints: what a person may type while the demo waits, as it works from another terminal."""

import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from shutil import which

from retrier.demo.orders import REPAIRS, Cause

_COMMANDS = (
    ("groups", "what failed, by cause"),
    ("errors list", "what failed, one by one"),
    ("retry --group ID --watch", "send a group back"),
)
"""Commands to try, and what each shows."""


def make_hints(url: str, broken_folder: Path) -> Iterator[str]:
    """Yield the lines; `url` is where the service listens, `broken_folder` has a file per cause."""
    yield "\nIt is yours now. From a second terminal:\n"
    if not url.endswith(":33333"):
        yield f"  export RETRIER_URL={url}"
    command = find_command()
    for arguments, purpose in _COMMANDS:
        yield f"  {command} {arguments}"
        yield f"      {purpose}"
    yield "\nNothing is repaired yet. Each cause is a file; remove it, then retry its group:\n"
    for cause in Cause:
        yield f"  rm {broken_folder}/{cause}"
        yield f"      {REPAIRS[cause]}"
    yield "\nCtrl-C ends the demo and removes the folder."


def find_command(executable: str = sys.executable, path: str | None = None) -> str:
    """Return the command line of Retrier as it works in another terminal.

    `retrier` alone does if a shell finds it in `path`, by default that of this process. From an
    environment that is not active it is the path of the script.
    """
    if which("retrier", path=path):
        return "retrier"
    script = Path(executable).with_name("retrier")
    return quote(str(script)) if script.exists() else f"{quote(executable)} -m retrier"
