"""One line of `retrier check`."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the check."""

    name: str
    ok: bool
    text: str
    out_of_reach: bool = False
    """Whether it did not answer: a later try may succeed. Else a person has to change something."""


def check_folder(name: str, file: Path) -> CheckResult:
    """Check that a file that is missing can be made; its folder is made with it."""
    existing = next(each for each in file.absolute().parents if each.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(name=name, ok=True, text=f"missing: will be made at {file}")
    reason = "may not be written to" if existing.is_dir() else "is no folder"
    return CheckResult(
        name=name, ok=False, text=f"missing, and cannot be made at {file}: {existing} {reason}"
    )
