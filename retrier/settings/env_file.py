"""A file of environment variables, as `EnvironmentFile` of systemd and `--env-file` of Docker have it.

No shell reads it, so a value is what stands there: `&`, `#`, `$`, blanks and backslashes are kept.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from retrier.errors import ConfigurationError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
_QUOTES = ("'", '"')


def read_env_file(path: Path) -> dict[str, str]:
    """Read lines of NAME=value; empty ones, and those that begin with # or ;, are left out.

    Quotes around a whole value are taken away. Raises ConfigurationError with every wrong line,
    by its number: a value may be a password.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigurationError([f"--env-file: cannot read {path}: {error.strerror}"]) from error
    except UnicodeError as error:
        raise ConfigurationError([f"--env-file: cannot read {path}: it is no text"]) from error
    found: dict[str, str] = {}
    problems: list[str] = []
    for number, name, value in _read_lines(lines):
        if not name:
            problems.append(f"{path}, line {number}: must be NAME=value")
        elif _is_open(value):
            problems.append(f"{path}, line {number}: the quote of {name} is not closed")
        else:
            found[name] = value[1:-1] if value[:1] in _QUOTES else value
    if problems:
        raise ConfigurationError(problems)
    return found


def _read_lines(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and text[0] not in "#;":
            read = _LINE.fullmatch(text)
            yield (number, read[1], read[2]) if read else (number, "", "")


def _is_open(value: str) -> bool:
    """Say whether a value begins with a quote, and does not end with the same one."""
    return value[:1] in _QUOTES and (len(value) == 1 or value[-1] != value[0])
