"""The program that makes pictures: what it is told on its command line."""

import pytest

from tests.page.pages import PAGES
from tests.page.pictures import read_arguments


def test_who_asks_for_help_gets_it_and_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(["--help"], PAGES)

    assert ended.value.code == 0
    assert "FOLDER [PAGE ...]" in capsys.readouterr().out


def test_a_page_that_is_none_is_a_usage_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(["pictures", "overview", "overwiew"], PAGES)

    assert ended.value.code == 2
    assert "no page is called overwiew" in capsys.readouterr().err


def test_without_a_page_all_are_meant() -> None:
    asked = read_arguments(["pictures"], PAGES)

    assert (asked.folder.name, asked.pages) == ("pictures", [])
