"""The pages of the documentation lead to each other, and to files that are there."""

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


WHOLE_PATH = re.compile(r"(?<![\w/.:-])((?:retrier|tests|docs)/[\w./-]*\w)")
SHORT_PATH = re.compile(r"(?<![\w/.:-])([a-z_]+(?:/\w+)+\.py)\b")
"""A module or a test as text names it for short: without `retrier/` or `tests/`."""
NOUN = re.compile(r"\S*\bNOUN\b\S*")
"""Stands for the name of a module that is to be written."""
PROGRAM = re.compile(r"-m (tests(?:\.\w+)+)")


def missing_paths(text: str) -> list[str]:
    """Return the files, folders and programs of the repository that a text names for nothing."""
    text = NOUN.sub("", text)
    whole = [path for path in WHOLE_PATH.findall(text) if not (ROOT / path).exists()]
    parents = [ROOT, ROOT / "retrier", ROOT / "tests", ROOT / "docs"]
    short = [
        path
        for path in SHORT_PATH.findall(text)
        if not any((parent / path).exists() for parent in parents)
    ]
    modules = [(name, ROOT / name.replace(".", "/")) for name in PROGRAM.findall(text)]
    programs = [
        name
        for name, path in modules
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists()
    ]
    return [*whole, *short, *programs]


def test_every_file_that_a_page_names_is_there() -> None:
    pages = [ROOT / "README.md", *(DOCS / page for page in PAGES)]

    found = {str(page.relative_to(ROOT)): missing_paths(page.read_text()) for page in pages}

    assert {page: paths for page, paths in found.items() if paths} == {}
