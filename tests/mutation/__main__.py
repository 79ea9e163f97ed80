"""Mutates the nouns and runs their tests: `python -m tests.mutation [NOUN ...]`.

mutmut does the work, in a copy that is deleted afterwards; what it needs is the extra `mutation`.
Printed are the mutants that no test has noticed, and the score: the noticed ones of a hundred.
"""

import argparse
import ast
import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutation.nouns import NOUNS, Noun
from tests.support.project import ROOT

MUTMUT = Path(sys.executable).with_name("mutmut")
WITHOUT_SERVERS = "not rabbitmq and not postgres and not alone and not faults and not kills"


def main() -> int:
    """Run the nouns that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nouns", nargs="*", metavar="NOUN", help=", ".join(NOUNS))
    parser.add_argument("--processes", type=int, default=1, help="how many run tests at once")
    options = parser.parse_args()
    asked = options.nouns or list(NOUNS)
    if unknown := [name for name in asked if name not in NOUNS]:
        parser.error(f"no such noun: {', '.join(unknown)}")
    scores = [run(name, NOUNS[name], options.processes) for name in asked]
    sys.stdout.write("".join(f"{score}\n" for score in scores))
    return 0


def run(name: str, noun: Noun, processes: int) -> str:
    """Mutate a noun, show which mutants survive, and return a line with the score."""
    with TemporaryDirectory(prefix="retrier-mutation-") as folder:
        copy = Path(folder)
        lay_out(copy, noun)
        mutmut(copy, "run", "--max-children", str(processes), *patterns_of(noun))
        results = mutmut(copy, "results", "--all", "yes", is_kept=True).splitlines()
        found = dict(line.strip().split(": ") for line in results)
        tried = {mutant: end for mutant, end in found.items() if end != "not checked"}
        # A timeout is shown, too: mutmut also calls so what ends in another way than by a test.
        unnoticed = [mutant for mutant, end in tried.items() if end != "killed"]
        for mutant in unnoticed:
            mutmut(copy, "show", mutant)
    noticed = len(tried) - len(unnoticed)
    return f"{name}: {noticed} of {len(tried)} mutants noticed, {noticed / len(tried):.1%}"


def patterns_of(noun: Noun) -> list[str]:
    """Return which mutants are of the noun, by mutmut's names: `x_function`, `xǁClassǁmethod`."""
    return [
        f"{module.removesuffix('.py').replace('/', '.')}.{pattern}"
        for module, names in noun.modules.items()
        for pattern in ([f"x[_ǁ]{name}[_ǁ]*_mutmut_*" for name in names] or ["*"])
    ]


def lay_out(copy: Path, noun: Noun) -> None:
    """Copy package and tests, and tell mutmut what to mutate and what to run."""
    for folder in ("retrier", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for module in noun.modules:
        path = copy / module
        path.write_text(without_decorators(path.read_text()))
    settings = configparser.ConfigParser()
    settings["mutmut"] = {
        "source_paths": "retrier",
        "also_copy": "docs",
        "only_mutate": lines(noun.modules),
        "do_not_mutate_patterns": lines(("assert_never", "case _ as never")),  # never reached
        "pytest_add_cli_args": lines(("-n0", "-pno:cacheprovider", f"-m{WITHOUT_SERVERS}")),
        "pytest_add_cli_args_test_selection": lines(noun.tests),
        "timeout_constant": "5",  # seconds, times 15: a machine may have something else to do
        "process_isolation": "forkserver",  # each mutant meets nothing that other tests have left
    }
    with (copy / "setup.cfg").open("w") as file:
        settings.write(file)
    (copy / "tmp").mkdir()


def lines(values: Iterable[str]) -> str:
    """Write several values as mutmut reads them from an INI file."""
    return "\n".join(("", *values))


def without_decorators(source: str) -> str:
    """Call each function's only decorator behind it instead: mutmut leaves out what has one.

    Caches are left out: only the first test that asks would be known as one of the function.
    """
    text = source.splitlines()
    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    for each in sorted(functions, key=lambda function: -function.lineno):
        if len(each.decorator_list) == 1 and each.end_lineno is not None:
            (decorator,) = each.decorator_list
            name = ast.unparse(decorator)
            call = "" if "cache" in name else f"{each.name} = {name}({each.name})"
            text.insert(each.end_lineno, " " * each.col_offset + call)
            del text[decorator.lineno - 1]
    return "\n".join((*text, ""))


def mutmut(copy: Path, *arguments: str, is_kept: bool = False) -> str:
    """Run a command of mutmut in the copy; return what it printed if that is kept."""
    done = subprocess.run(  # noqa: S603 - with names of our own files
        [MUTMUT, *arguments],
        cwd=copy,
        env={**os.environ, "TMPDIR": str(copy / "tmp")},
        stdout=subprocess.PIPE if is_kept else None,
        text=True,
        check=True,
    )
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
