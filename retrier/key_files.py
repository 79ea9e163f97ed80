"""Files with private keys: one that is encrypted would make OpenSSL ask for its password."""

from contextlib import suppress
from pathlib import Path

_SIGNS = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")
_READ = 64 * 1024

NOT_ASKED = "is encrypted, and nobody is asked for its password"


def is_encrypted(file: str) -> bool:
    """Say whether a key in PEM form is encrypted; false for a file that cannot be read."""
    with suppress(OSError), Path(file).open("rb") as opened:
        found = opened.read(_READ)
        return any(sign in found for sign in _SIGNS)
    return False
