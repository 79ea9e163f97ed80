"""What a page shows of an example is what the example does."""

import re

import pytest

from tests.support.project import ROOT

DOCS = ROOT / "docs"
SHOWN = re.compile(
    r"\((examples/[\w.]+)\)[^\n]*\n\n```(?:js|python|java|csharp|go)\n(.+?)```", re.DOTALL
)
SNIPPETS = SHOWN.findall((DOCS / "dead-letter-queue.md").read_text())
NOQA = re.compile(r"  # noqa.*")


@pytest.mark.parametrize(("example", "code"), SNIPPETS, ids=[example for example, _ in SNIPPETS])
def test_every_line_that_is_shown_is_in_the_example(example: str, code: str) -> None:
    lines = {NOQA.sub("", line).strip() for line in (DOCS / example).read_text().splitlines()}

    assert [line for line in code.splitlines() if line.strip() not in lines] == []


def test_a_confirmation_is_shown_in_five_languages() -> None:
    shown = [example for example, _ in SNIPPETS]

    assert sorted(shown) == sorted(
        f"examples/{path.name}" for path in DOCS.glob("examples/*onsume*")
    )
