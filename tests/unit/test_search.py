"""What is typed into the one search box: fields, words and texts, and phrases among the words."""

import pytest

from retrier.domain.fields import FieldCondition
from retrier.domain.search import By, find_undeclared, find_ways
from retrier.domain.words import GAP, LONGEST, MOST, MOST_BYTES, Phrase, read_wanted, words_of

NAMES = ("order", "customer")


def ways(text: str, *, full_text: bool = True) -> list[tuple[By, dict[str, str]]]:
    found = find_ways(text, NAMES, full_text=full_text)
    return [(each.by, dict(each.conditions)) for each in found]


class TestATextIsLookedFor:
    def test_as_the_value_of_each_field_as_words_and_as_a_text(self) -> None:
        assert ways("4711") == [
            (By.FIELD, {"field.order": "4711"}),
            (By.FIELD, {"field.customer": "4711"}),
            (By.WORDS, {"words": "4711"}),
            (By.TEXT, {"text": "4711"}),
            (By.BEGINNINGS, {"words": "4711*"}),
        ]

    def test_as_no_words_where_full_text_is_off(self) -> None:
        assert By.WORDS not in [by for by, _ in ways("4711", full_text=False)]

    @pytest.mark.parametrize(
        ("text", "begun"),
        [
            ("late timeout", "late* timeout*"),
            ('"late at" timeout', '"late at" timeout*'),
            ("Shop.Ord 7", '"shop ord"* 7'),
            ("a late*", "a late*"),
        ],
    )
    def test_as_the_beginnings_of_its_words_unless_they_are_short(
        self, text: str, begun: str
    ) -> None:
        found = [given["words"] for by, given in ways(text) if by is By.BEGINNINGS]

        assert found == [] if read_wanted(text) == read_wanted(begun) else [begun]

    def test_as_no_words_where_it_has_none(self) -> None:
        assert By.WORDS not in [by for by, _ in ways("???")]

    @pytest.mark.parametrize("text", ["order=4711", "field.order=4711", ' order="4711" '])
    def test_as_a_condition_on_a_field_that_it_names(self, text: str) -> None:
        assert ways(text) == [(By.FIELD, {"field.order": "4711"})]

    @pytest.mark.parametrize(
        ("written", "value"),
        [
            ('"two words"', "two words"),
            ('"say ""hi"""', 'say "hi"'),
            ('7"', '7"'),
            ('"a"b', '"a"b'),
        ],
    )
    def test_as_the_value_in_marks_or_with_marks(self, written: str, value: str) -> None:
        assert ways(f"order={written}") == [(By.FIELD, {"field.order": value})]

    def test_as_a_whole_value_with_marks(self) -> None:
        assert (By.FIELD, {"field.order": 'say "hi"'}) in ways('"say ""hi"""')

    def test_with_the_names_that_no_field_has(self) -> None:
        assert find_undeclared("order=1 nofield=4711 oder= x=2 x=3", NAMES) == ["nofield", "x"]

    def test_as_a_range_of_a_field(self) -> None:
        assert ways("order=10..20") == [(By.FIELD, {"field.order": "10..20"})]

    def test_as_a_condition_and_the_rest(self) -> None:
        assert ways("late order=4711 again") == [
            (By.WORDS, {"words": "late again", "field.order": "4711"}),
            (By.TEXT, {"text": "late again", "field.order": "4711"}),
            (By.BEGINNINGS, {"words": "late* again*", "field.order": "4711"}),
        ]

    @pytest.mark.parametrize("text", ["oder=4711", "order=", "reorder=4711", "order=1..x"])
    def test_as_it_stands_where_it_names_no_condition(self, text: str) -> None:
        assert (By.TEXT, {"text": text}) in ways(text)

    def test_as_nothing_where_it_is_blank(self) -> None:
        assert ways(" \t ") == []

    def test_as_the_value_that_it_is_in_the_order_of_names(self) -> None:
        (way,) = find_ways("order=1 customer=2", NAMES, full_text=True)

        assert way.selection.fields == (
            FieldCondition("customer", "2"),
            FieldCondition("order", "1"),
        )


class TestAPhrase:
    @pytest.mark.parametrize(
        ("text", "phrases"),
        [
            ("one two", [Phrase(("one",)), Phrase(("two",))]),
            ('"one two" three', [Phrase(("one", "two")), Phrase(("three",))]),
            ("Shop.Order", [Phrase(("shop", "order"))]),
            ("a_b", [Phrase(("a", "b"))]),
            ("ord*", [Phrase(("ord",), goes_on=True)]),
            ('"one tw"*', [Phrase(("one", "tw"), goes_on=True)]),
            ('"one tw*"', [Phrase(("one", "tw"), goes_on=True)]),
            ('"open', [Phrase(("open",))]),
            ("one ONE", [Phrase(("one",))]),
            ("東京", [Phrase(("東", "京"))]),
            ("x" * 100, [Phrase(("x" * LONGEST,))]),
            ("* ! \0", []),
        ],
    )
    def test_is_what_stands_between_blanks_or_marks(self, text: str, phrases: list[Phrase]) -> None:
        assert list(read_wanted(text)) == phrases


class TestTheWordsOfAMessage:
    def test_have_a_gap_between_two_texts(self) -> None:
        assert words_of(["one two", "", "three"]) == ("one", "two", GAP, "three")

    def test_are_bounded_in_number(self) -> None:
        assert len(words_of([" ".join(map(str, range(2 * MOST)))])) == MOST

    def test_are_bounded_in_bytes(self) -> None:
        many = " ".join(f"{number}{'ä' * 60}" for number in range(MOST))

        assert sum(len(each.encode()) for each in words_of([many])) <= MOST_BYTES
