"""The person's editor: a text is changed in a file that nobody else can read, and read back."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from retrier.errors import RequestRefused

USUAL = "vi"


def edit(text: str) -> str | None:
    """Open a text in the editor that VISUAL or EDITOR names; None if it was left as it was.

    The file is gone afterwards: it holds what a message holds. Raises RequestRefused.
    """
    if not sys.stdin.isatty():
        raise RequestRefused("There is nobody to edit it: say with options what is to be changed.")
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or USUAL
    with TemporaryDirectory(prefix="retrier-") as folder:
        file = Path(folder) / "message.txt"
        file.write_bytes(text.encode(errors="surrogatepass"))
        _run([*shlex.split(named), str(file)], named)
        try:
            after = file.read_bytes().decode()
        except UnicodeDecodeError:
            raise RequestRefused("The editor has written no UTF-8. Nothing was sent.") from None
    return None if after == text else after


def _run(words: list[str], named: str) -> None:
    try:
        # The person's own words, as the shell of this machine would take them.
        ended = subprocess.run(words, check=False)  # noqa: S603
    except OSError as error:
        raise RequestRefused(f"The editor {named!r} cannot be started: {error.strerror}.") from None
    if ended.returncode:
        raise RequestRefused(f"The editor ended with {ended.returncode}. Nothing was sent.")
