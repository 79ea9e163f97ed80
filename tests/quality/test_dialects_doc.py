"""The page about formats of failures says what the dialects declare."""

import re
from pathlib import Path

import pytest

from retrier.domain.dialects import DIALECTS
from retrier.settings import load_settings
from retrier.settings.dialects import DialectSection
from tests.support.dialect_tables import FIELDS, feeds, overview
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "dialects.md").read_text()


@pytest.mark.parametrize("table", [overview(), feeds()], ids=["overview", "facts"])
def test_a_table_is_made_of_what_the_dialects_declare(table: list[str]) -> None:
    assert "\n".join(table) in PAGE


def test_each_fact_has_a_name() -> None:
    assert {name for each in DIALECTS for name in each.declared.feeds} <= FIELDS.keys()


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL))
def test_settings_that_are_shown_are_right(text: str, tmp_path: Path) -> None:
    file = tmp_path / "retrier.yaml"
    file.write_text(text)

    assert load_settings(file, {}).ingestion


def test_each_key_of_a_format_of_ones_own_is_named() -> None:
    (section,) = re.findall(r"^## A format of your own\n(.+?)^## ", PAGE, re.DOTALL | re.MULTILINE)

    assert [key for key in DialectSection.model_fields if f"`{key}`" not in section] == []
