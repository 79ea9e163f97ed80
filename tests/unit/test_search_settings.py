"""The section `search` of the settings: fields that messages are found by."""

from collections.abc import Callable
from pathlib import Path

import pytest

from retrier.domain.dialects.own import Place, Source
from retrier.domain.fields import DeclaredField, XmlPath
from retrier.errors import ConfigurationError
from retrier.settings import Settings, load_settings

Load = Callable[[str], Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def write(text: str) -> Settings:
        path = tmp_path / "retrier.yaml"
        path.write_text(f"search: {{fields: [{text}]}}")
        return load_settings(path, {})

    return write


def problems_of(load: Load, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return caught.value.problems


def test_a_field_is_declared_with_its_place_and_its_queues(load: Load) -> None:
    found = load("{name: order, from: 'header:Shop.OrderId', queues: ['orders*', billing]}")

    assert found.search.declared == (
        DeclaredField(
            name="order",
            source=Source(Place.HEADER, "Shop.OrderId"),
            queues=("orders*", "billing"),
        ),
    )


def test_a_field_may_stand_in_xml(load: Load) -> None:
    (found,) = load("{name: a, from: 'xml:/order/@id'}").search.declared

    assert found.source == XmlPath(("order",), "id")


def test_one_name_may_stand_elsewhere_on_other_queues(load: Load) -> None:
    found = load(
        "{name: order, from: 'header:X', queues: ['orders*']}, "
        "{name: order, from: 'body:/id', queues: [billing]}"
    )

    assert len(found.search.declared) == 2


def test_fields_may_be_given_by_the_environment() -> None:
    found = load_settings(
        None, {"RETRIER_SEARCH__FIELDS": '[{"name": "order", "from": "header:X"}]'}
    )

    assert [each.name for each in found.search.declared] == ["order"]


def test_there_are_twenty_fields_at_most(load: Load) -> None:
    fields = ", ".join(f"{{name: f{number}, from: 'header:X'}}" for number in range(21))

    (problem,) = problems_of(load, fields)

    assert problem.startswith("search.fields: must be 20 fields at most")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{from: 'header:X'}", "search.fields[0].name: must be given"),
        ("{name: a}", "search.fields[0].from: must be given"),
        ("{name: a, from: 'text:x'}", "search.fields[0].from: must be header:NAME"),
        ("{name: a, from: 'property:size'}", "search.fields[0].from: must be property: and one of"),
        ("{name: a, from: 'header:X', queues: []}", "search.fields[0].queues: must name a queue"),
        ("{name: a, from: 'header:X', queue: b}", "known here: name, from, queues"),
        ("order", "search.fields[0]: must hold keys of its own: name, from, queues"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(load: Load, text: str, words: str) -> None:
    assert any(words in problem for problem in problems_of(load, text))


def test_full_text_is_off_unless_the_settings_say_otherwise(load: Load) -> None:
    assert not load("").search.text.enabled


@pytest.mark.parametrize("given", ["-1", "262145", "much"])
def test_the_bytes_of_a_body_are_bounded(tmp_path: Path, given: str) -> None:
    path = tmp_path / "retrier.yaml"
    path.write_text(f"search: {{text: {{enabled: true, body_bytes: {given}}}}}")

    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, {})

    assert caught.value.problems[0].startswith("search.text.body_bytes: ")
