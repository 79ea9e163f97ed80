"""Words that were retired stay away: each had a plainer one, or two meanings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.project import MODULES, ROOT, list_files

RETIRED_NAMES = {
    "acting": "RequestContext",
    "around": "context",
    "desk": "client",
    "doorway": "middleware",
    "go_by_index": "force_index_order",
    "in_full_swing": "is_pipelined",
    "lookout": "cached query",
    "meanwhile": "while_in_flight",
    "patience": "timeout",
    "remembered": "answer cache",
    "returned_messages": "reverted",
    "shares": "PIPELINE_DEPTH",
    "sought": "selection",
    "story": "scenario",
    "surroundings": "context",
    "take_back": "revert",
    "take_time": "without_timeouts",
    "taken_back": "reverted",
    "tally": "shop_log",
    "unasked": "PING_AFTER_IDLE",
    "watcher": "subscriber",
    "way_out": "message action",
    "ways_out": "message actions",
}
"""Names that code may not use, and what took their place."""

RETIRED_MODULES = {
    "acting",
    "asked",
    "asking",
    "building",
    "checking",
    "desk",
    "doorway",
    "ending",
    "endings",
    "installing",
    "listening",
    "log_lines",
    "lookout",
    "named_ids",
    "patience",
    "place",
    "remembered",
    "sought",
    "story",
    "surroundings",
    "tally",
    "threads",
    "ticks",
    "tools",
    "verifying",
    "watcher",
    "watchers",
    "watching",
    "ways_out",
}

RETIRED_PHRASES = re.compile(
    r"\bbut for (?:the|its|those|what|a|--)\b|\bdoorway\b|\bin full swing\b|\blookout\b|\blest\b"
    r"|\bsurroundings\b|\bwhence\b|\bis the processor (?:no more|now)\b|\btakes nothing off\b",
    re.IGNORECASE,
)


def walk_names(path: Path) -> Iterator[str]:
    """Walk what a module defines: classes, functions, arguments and variables."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def normalised(name: str) -> str:
    """Return a name in lower case with underscores: CamelCase is split."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).strip("_").lower()


def is_text(path: Path) -> bool:
    decisions = path.parts[:2] == ("docs", "decisions")
    itself = path.name == Path(__file__).name
    return path.suffix in {".py", ".md", ".yaml"} and not decisions and not itself


def test_no_name_is_a_retired_one() -> None:
    retired = [
        (str(path.relative_to(ROOT)), name, RETIRED_NAMES[normalised(name)])
        for path in MODULES
        for name in set(walk_names(path))
        if normalised(name) in RETIRED_NAMES
    ]

    assert retired == []


def test_no_module_is_called_by_a_retired_name() -> None:
    assert [path for path in MODULES if path.stem in RETIRED_MODULES] == []


def test_no_text_has_a_retired_phrase() -> None:
    texts = [path for path in list_files() if is_text(path)]
    found = {str(path): RETIRED_PHRASES.findall((ROOT / path).read_text()) for path in texts}

    assert {path: phrases for path, phrases in found.items() if phrases} == {}
