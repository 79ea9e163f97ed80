"""Variables: those of a file, and those by the names that a job queue uses.

No shell reads the file, so a value is what stands there: `&`, `#`, `$`, blanks and backslashes are
kept.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from retrier.errors import ConfigurationError
from retrier.settings.fields import KeyPath

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


DATABASE = "DATABASE_URL"
ATTEMPTS, DELAY, JITTER = "RETRY_MAX_ATTEMPTS", "RETRY_BASE_DELAY_MS", "RETRY_JITTER_MAX_MS"
WINDOW, THRESHOLD, COOLDOWN = "CIRCUIT_WINDOW", "CIRCUIT_FAIL_THRESHOLD", "CIRCUIT_COOLDOWN_MS"

KNOBS: Mapping[str, str] = {
    DATABASE: "database.url",
    ATTEMPTS: "policies.rules",
    DELAY: "policies.rules",
    JITTER: "policies.rules",
    WINDOW: "breakers.window",
    THRESHOLD: "breakers.threshold",
    COOLDOWN: "breakers.cooldown",
}
"""What each is used for."""

RULE = "environment"
"""The name of the rule that is made of them."""

_LONGEST_MS = 24 * 3600 * 1000
_MOST_ATTEMPTS = 1000
_SMALL_WINDOWS = tuple(str(number) for number in range(1, 10))
_FRACTION = re.compile(r"0?\.[0-9]{1,4}|1\.0{1,4}")
_PERCENT = re.compile(r"([0-9]{1,3})%?")


_CHECKED_LATER: Mapping[KeyPath, str] = {
    ("database", "url"): DATABASE,
    ("breakers", "window"): WINDOW,
}


@dataclass(slots=True)
class Used:
    """The names that are used, by the key that each stands for; and what is wrong with them."""

    names: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def variables(self) -> dict[KeyPath, str]:
        """The names by path, for the words of a problem; only those that are checked later."""
        return {path: name for path, name in _CHECKED_LATER.items() if name in self.names}


def apply_knobs(tree: dict[str, object], environ: Mapping[str, str]) -> Used:
    """Put what they say into the tree, and return which of them are used."""
    reader = _Reader(environ)
    database = tree.get("database", {})
    if isinstance(database, dict) and "url" not in database and (url := reader.text(DATABASE)):
        tree["database"] = {**database, "url": url}
    _apply_to_policies(tree, reader)
    if "breakers" not in tree and (breakers := _make_breakers(reader)):
        tree["breakers"] = breakers
    return reader.used


def apply_policy_knobs(tree: dict[str, object], environ: Mapping[str, str]) -> Used:
    """Do the same for the policies alone."""
    reader = _Reader(environ)
    _apply_to_policies(tree, reader)
    return reader.used


def _apply_to_policies(tree: dict[str, object], reader: "_Reader") -> None:
    """Put a rule for every failure into the tree, if there are no policies of ours."""
    if "policies" not in tree and (rule := _make_rule(reader)):
        tree["policies"] = {"rules": [rule]}


def _make_rule(reader: "_Reader") -> dict[str, object] | None:
    """Return the rule; what is left out is as the preset `gateway` has it."""
    attempts = reader.number(ATTEMPTS, 0, _MOST_ATTEMPTS)
    first = reader.number(DELAY, 1, _LONGEST_MS)
    jitter = reader.number(JITTER, 0, _LONGEST_MS)
    if attempts is first is jitter is None:
        return None
    most = 5000 if jitter is None else jitter
    return {
        "name": RULE,
        "match": {},
        "attempts": 3 if attempts is None else attempts,
        "backoff": {"kind": "exponential", "first": f"{first or 5000}ms"},
        "jitter": {"additive": f"{most}ms"} if most else "none",
    }


def _make_breakers(reader: "_Reader") -> dict[str, object]:
    window = reader.text(WINDOW)
    threshold = reader.read(THRESHOLD, _read_threshold)
    cooldown = reader.number(COOLDOWN, 1000, _LONGEST_MS)
    made: dict[str, object] = {}
    if window is not None:
        made["window"] = window
        if window in _SMALL_WINDOWS:  # with the usual `min` it would never open
            made["min"] = int(window)
    if threshold is not None:
        made["threshold"] = threshold
    if cooldown is not None:
        made["cooldown"] = f"{cooldown}ms"
    return made


def _read_threshold(text: str) -> int:
    if _FRACTION.fullmatch(text):
        percent = round(float(text) * 100)
    elif (found := _PERCENT.fullmatch(text)) and text != "1":  # 1 may mean all, or 1 %
        percent = int(found[1])
    else:
        percent = 0
    if not 1 <= percent <= 100:  # noqa: PLR2004 - percent
        raise ValueError(
            "must be a share like 0.5, or percent from 2 to 100 (1%, if that is meant)"
        )
    return percent


def _read_number(text: str, *, least: int, most: int) -> int:
    number = (
        int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(most)) else -1
    )
    if not least <= number <= most:
        raise ValueError(f"must be a whole number from {least} to {most}")
    return number


class _Reader:
    """Reads variables, and keeps which are used, and which are wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.used = Used()

    def text(self, name: str) -> str | None:
        """Return the value of a variable; None if it is not there or empty."""
        found = self._environ.get(name, "").strip()
        if found:
            self.used.names[name] = KNOBS[name]
        return found or None

    def number(self, name: str, least: int, most: int) -> int | None:
        return self.read(name, partial(_read_number, least=least, most=most))

    def read(self, name: str, parse: Callable[[str], int]) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.used.problems.append(f"{name}: {error}, is {text[:60]!r}")
            return None
