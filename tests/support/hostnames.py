"""Another host's name for a process: to the lease that is another host."""

import os
import subprocess
from functools import cache

import pytest

ROOT, ANYBODY = ("unshare", "--uts"), ("unshare", "--map-root-user", "--uts")


def on_host(name: str) -> list[str]:
    """Return what starts a command on a host of this name; skip aloud where that is impossible."""
    prefix = _unshare()
    if prefix is None:
        pytest.skip("no host names of our own here: `unshare --uts` fails")
    return [*prefix, "sh", "-c", f'hostname {name} && exec "$@"', "sh"]


@cache
def _unshare() -> tuple[str, ...] | None:
    prefix = ROOT if os.geteuid() == 0 else ANYBODY
    try:
        subprocess.run([*prefix, "hostname", "trial"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return prefix
