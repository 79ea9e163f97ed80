"""The pictures of the documentation: small, made by a command, and shown somewhere."""

from tests.page.doc_pictures import FOLDER, PICTURES
from tests.support.project import ROOT

LARGEST = 150_000
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def test_the_command_makes_those_that_are_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.png" for name in PICTURES}


def test_no_picture_is_large() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}

    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_every_picture_is_shown() -> None:
    text = "".join(path.read_text() for path in PAGES)

    assert [name for name in PICTURES if f"pictures/{name}.png)" not in text] == []
