"""The folded text of a message: Unicode's simple case folding, the same in every place."""

import pytest

from retrier.domain.failure_texts import BETWEEN, fold, searched_text, with_reason
from tests.support.factories import failure_details

EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
ONE_FOLD = {
    "\N{LATIN CAPITAL LETTER SHARP S}": "ß",
    "\N{GREEK CAPITAL LETTER ALPHA WITH PSILI AND PROSGEGRAMMENI}": "\u1f80",
    "\N{GREEK CAPITAL LETTER SIGMA}": "\u03c3",
    "\N{GREEK SMALL LETTER FINAL SIGMA}": "\u03c3",
    "\N{LATIN SMALL LETTER LONG S}": "s",
    "\N{KELVIN SIGN}": "k",
    "\N{CYRILLIC CAPITAL LETTER ZHE}": "ж",
}
STAYS = (
    "ß",
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}",
    "\N{LATIN SMALL LETTER N PRECEDED BY APOSTROPHE}",
    "\N{LATIN SMALL LIGATURE FI}",
    "\N{ARMENIAN SMALL LIGATURE ECH YIWN}",
)


@pytest.mark.parametrize(("letter", "folded"), ONE_FOLD.items())
def test_a_letter_becomes_one_letter(letter: str, folded: str) -> None:
    assert fold(letter) == folded


@pytest.mark.parametrize("letter", STAYS)
def test_a_letter_that_only_full_folding_changes_stays(letter: str) -> None:
    assert fold(letter) == letter


def test_no_single_letter_becomes_several() -> None:
    several = [each for each in EVERY if len(fold(each)) > 1]

    # Those that NFC itself takes apart (composition exclusions).
    assert all(len(fold(part)) == 1 for each in several for part in fold(each))
    assert "ß" not in several


def test_what_is_folded_stays_as_it_is() -> None:
    assert [each for each in EVERY if fold(fold(each)) != fold(each)] == []


def test_a_letter_and_its_accent_are_one() -> None:
    assert fold("CAFE\u0301") == fold("café")


def test_a_text_has_no_mark_between_parts_but_ours() -> None:
    details = failure_details(exception_message=f"left{BETWEEN}right")

    assert searched_text(details, "why").count(BETWEEN) == 6


def test_another_reason_changes_the_last_part_only() -> None:
    details = failure_details()

    assert with_reason(searched_text(details, "first"), "Second") == searched_text(
        details, "second"
    )
    assert with_reason(searched_text(details, "first"), None) == searched_text(details, None)
