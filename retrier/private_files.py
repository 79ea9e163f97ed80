"""Private files: those that hold messages, open to nobody else; and keys, which may be encrypted.

Of a database the one file is enough: SQLite gives its `-wal`, `-shm` and `-journal` files the mode
of the database beside them. A key that is encrypted would make OpenSSL ask for its password.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077
_BESIDE = ("", "-wal", "-shm", "-journal")


def make_private_folder(folder: Path) -> None:
    """Make a folder that is missing, mode 0700; one that is there stays as it is. Raises OSError."""
    # Parents that are missing, too, get the mode that the umask leaves them: it guards this one.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_private_file(file: Path) -> None:
    """Make an empty file that is missing, mode 0600; one that is there stays as it is.

    Where that fails, whoever opens the file says why.
    """
    # Where a symbolic link leads to. One that is there is never opened here: closing it would end
    # the locks that SQLite holds on it in this process.
    place = Path(os.path.realpath(file))
    if place.exists():
        return
    with suppress(OSError):
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def find_open_to_others(file: Path) -> Sequence[Path]:
    """Return which of a database's files others on this machine may read or write, its folder first.

    The folder alone is no danger while its files are closed.
    """
    beside = [Path(f"{file}{suffix}") for suffix in _BESIDE]
    loose = [each for each in beside if _is_loose(each)]
    folder = file.absolute().parent
    return [folder, *loose] if loose and _is_loose(folder) else loose


def _is_loose(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except OSError:
        return False


_SIGNS = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")
_READ = 64 * 1024

NOT_ASKED = "is encrypted, and nobody is asked for its password"


def is_encrypted(file: str) -> bool:
    """Say whether a key in PEM form is encrypted; false for a file that cannot be read."""
    with suppress(OSError), Path(file).open("rb") as opened:
        found = opened.read(_READ)
        return any(sign in found for sign in _SIGNS)
    return False


def write_private_file(file: Path, text: str) -> None:
    """Write a file that nobody else may read, mode 0600; whoever reads meanwhile has the old one.

    Raises OSError.
    """
    make_private_folder(file.parent)
    made = file.with_name(f".{file.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        made.unlink()
    with os.fdopen(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
        opened.write(text)
    made.replace(file)
