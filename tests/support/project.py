"""The project as the quality tests see it: its files, and the tools that judge them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = tuple(sorted((ROOT / "retrier").rglob("*.py")))

LEFT_BEHIND = {
    "PKG-INFO",
    ".venv",
    "__pycache__",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".import_linter_cache",
}
"""What an sdist has more than the repository, and what running it leaves there."""


def list_files() -> list[Path]:
    """List what git tracks or would track, relative to the top; in an sdist, what it came with."""
    if not (ROOT / ".git").exists():
        paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
        return sorted(path for path in paths if LEFT_BEHIND.isdisjoint(path.parts))
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in done.stdout.split("\0") if name]
    return [path for path in paths if (ROOT / path).exists()]


def complaints_of(*arguments: str) -> str:
    """Run Python with these arguments at the top; return its output if it failed, else nothing."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    return f"exit code {done.returncode}\n{done.stdout}{done.stderr}".strip()
