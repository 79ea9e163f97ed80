"""The pages of the documentation lead to each other."""

import re

from tests.support.project import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_every_link_of_a_page_leads_to_a_file() -> None:
    links = [(page, each) for page in PAGES for each in LINK.findall((DOCS / page).read_text())]

    assert [link for link in links if not (DOCS / link[0]).parent.joinpath(link[1]).is_file()] == []


def test_the_index_has_a_line_for_every_page() -> None:
    lines = [LINK.findall(line) for line in (DOCS / "index.md").read_text().splitlines()]

    assert sorted(page for line in lines for page in line) == sorted({*PAGES} - {"index.md"})
