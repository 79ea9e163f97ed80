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


ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*]")
LEFT_OUT = re.compile(r"[^\w\- ]")


def anchors_of(page: str) -> set[str]:
    """Return the names that a page gives to its headings: as GitHub and the site make them."""
    text = BLOCK.sub("", (DOCS / page).resolve().read_text())
    names: list[str] = []
    for heading in HEADING.findall(text):
        name = LEFT_OUT.sub("", MARK.sub(r"\1", heading).lower()).replace(" ", "-")
        again = sum(each == name or each.startswith(f"{name}-") for each in names)
        names += [name, f"{name}-{again}"] if again else [name]
    return set(names)


def test_every_anchor_of_a_link_is_a_heading() -> None:
    links = [
        (page, where or page.rpartition("/")[2], anchor)
        for page in PAGES
        for where, anchor in ANCHOR.findall(BLOCK.sub("", (DOCS / page).read_text()))
    ]

    dead = [
        (page, where, anchor)
        for page, where, anchor in links
        if anchor not in anchors_of(str((DOCS / page).parent.joinpath(where).relative_to(DOCS)))
    ]
    assert dead == []


def test_the_default_virtual_host_is_written_in_one_way() -> None:
    """As `/%2F`: every client reads it alike, and some take `//` for another virtual host."""
    files = [ROOT / "README.md", ROOT / "config.example.yaml", *DOCS.rglob("*.*")]
    texts = {path: path.read_text() for path in files if path.suffix != ".png"}

    assert [str(path) for path, text in texts.items() if re.search(r":5672//", text)] == []
