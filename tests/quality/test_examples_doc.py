"""What a page shows of an example is what the example does."""

import re

from tests.support.project import ROOT

DOCS = ROOT / "docs"
SHOWN = re.compile(
    r"\((examples/[\w.]+)\)[^\n]*\n\n```(?:js|python|java|csharp|go|php)\n(.+?)```", re.DOTALL
)
SNIPPETS = SHOWN.findall((DOCS / "dead-letter-queue.md").read_text())
OF_LIBRARIES = SHOWN.findall((DOCS / "dialects.md").read_text())
NOQA = re.compile(r"  # noqa.*")


def lines_of(example: str) -> set[str]:
    return {NOQA.sub("", line).strip() for line in (DOCS / example).read_text().splitlines()}


def test_every_line_that_is_shown_is_in_the_example() -> None:
    snippets = [*SNIPPETS, *OF_LIBRARIES]
    shown = [(example, line) for example, code in snippets for line in code.splitlines()]
    lines = {example: lines_of(example) for example, _ in snippets}

    assert [(name, line) for name, line in shown if line.strip() not in lines[name]] == []


def test_a_confirmation_is_shown_in_five_languages() -> None:
    shown = [example for example, _ in SNIPPETS]

    assert sorted(shown) == sorted(
        f"examples/{path.name}" for path in DOCS.glob("examples/*onsume*rders*")
    )


def test_a_confirmation_is_shown_for_each_library_that_has_an_example() -> None:
    shown = {example for example, _ in OF_LIBRARIES}

    assert shown == {f"examples/{path.name}" for path in DOCS.glob("examples/*on*_with_*")} | {
        f"examples/{path.name}" for path in DOCS.glob("examples/*onfirmWith*")
    }
