"""Manual pages: one for each command, with what its help says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import ALL, OPTIONS, invoke

REQUEST = re.compile(r"^[.'](?!(?:TH|SH|TP|PP|nf|fi)\b)", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the pages by name."""
    folder = tmp_path_factory.mktemp("man") / "man1"
    assert invoke(["help", "--man-pages", str(folder)]).exit_code == 0
    return {path.stem: path for path in folder.iterdir()}


def test_each_command_has_a_page(pages: dict[str, Path]) -> None:
    assert set(pages) == {"-".join(("retrier", *words)) for words in ALL}


def test_a_page_names_the_options_of_its_command(pages: dict[str, Path]) -> None:
    texts = {words: pages["-".join(("retrier", *words))].read_text() for words in ALL}

    missing = {
        words: [each for each in options if each.replace("-", "\\-") not in texts[words]]
        for words, options in OPTIONS.items()
    }
    assert {words: options for words, options in missing.items() if options} == {}


def test_a_text_is_not_taken_for_a_request(pages: dict[str, Path]) -> None:
    assert [name for name, path in pages.items() if REQUEST.search(path.read_text())] == []


def test_the_formatter_finds_nothing_wrong_with_a_page(pages: dict[str, Path]) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    command = [groff, "-man", "-ww", "-z", "-K", "utf8", *pages.values()]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_cannot_be_written_is_a_mistake() -> None:
    result = invoke(["help", "--man-pages", "/proc/nowhere"])

    assert (result.exit_code, "/proc/nowhere" in result.stderr) == (2, True)
