"""The page about brokers says what the transports declare."""

import pytest

from tests.support.project import ROOT
from tests.support.transport_tables import DECLARED, fields_without_words, overview, promises

PAGE = (ROOT / "docs" / "transports.md").read_text()


@pytest.mark.parametrize("table", [overview(), promises()], ids=["capabilities", "promises"])
def test_a_table_is_made_of_what_the_transports_declare(table: list[str]) -> None:
    assert "\n".join(table) in PAGE


def test_each_transport_has_words_for_each_row() -> None:
    assert {each.broker: fields_without_words(each) for each in DECLARED} == {
        each.broker: set() for each in DECLARED
    }
