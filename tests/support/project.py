"""The project as the quality tests see it: its files, and the tools that judge them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = tuple(sorted((ROOT / "retrier").rglob("*.py")))


def list_files() -> list[Path]:
    """List what git tracks or would track, relative to the top."""
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
