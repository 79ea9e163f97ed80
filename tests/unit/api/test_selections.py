"""The selection of a request: every part, and what is refused instead of being guessed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from retrier.api.selections import SelectionBody
from retrier.domain.selection import Selection, WantedDisposition


def read(parts: Any) -> Selection:
    return SelectionBody.model_validate(parts).to_selection()


def refusals(parts: Any) -> list[tuple[str, str]]:
    """Return field and type of each error."""
    with pytest.raises(ValidationError) as refused:
        read(parts)
    return [(".".join(map(str, each["loc"])), each["type"]) for each in refused.value.errors()]


def test_every_part_is_a_condition() -> None:
    texts = (
        "group",
        "queue",
        "endpoint",
        "exception_type",
        "message_type",
        "reason",
        "stream",
        "host",
        "process",
        "node",
    )
    texts += ("text",)

    found = read(
        {name: f"a {name}" for name in texts}
        | {"failed_from": "2026-05-04T00:00:00Z", "failed_to": "2026-05-05T02:00:00+02:00"}
        | {"attempts_at_least": 3, "disposition": "dead"}
    )

    assert found == Selection(
        **{name: f"a {name}" for name in texts},  # type: ignore[arg-type] # all of them texts
        failed_from=datetime(2026, 5, 4, tzinfo=UTC),
        failed_to=datetime(2026, 5, 5, 0, 0, 0, 999_999, tzinfo=UTC),
        attempts_at_least=3,
        disposition=WantedDisposition.DEAD,
    )


def test_ids_stand_alone() -> None:
    assert read({"ids": ["a", "b"]}) == Selection(ids=("a", "b"))
    assert refusals({"ids": ["a"], "queue": "orders"}) == [("", "not_alone")]


def test_everything_is_said_in_so_many_words() -> None:
    assert read({"all": True}) == Selection()
    assert refusals({"all": True, "queue": "orders"}) == [("", "not_alone")]


@pytest.mark.parametrize("value", [False, 1, "true"])
def test_everything_is_said_in_no_other_words(value: object) -> None:
    assert refusals({"all": value}) == [("all", "only_true")]


def test_nothing_is_not_everything() -> None:
    assert refusals({}) == [("", "nothing")]


@pytest.mark.parametrize("part", ["all", "ids", "queue", "failed_to", "attempts_at_least"])
def test_no_value_is_not_no_condition(part: str) -> None:
    # A program that found no queue must not retry those of every queue.
    assert refusals({"endpoint": "Sales", part: None}) == [(part, "null")]


def test_a_misspelled_part_is_named() -> None:
    assert refusals({"endpoint": "Sales", "que": "orders"}) == [("que", "extra_forbidden")]


def test_a_time_range_that_holds_nothing_is_refused() -> None:
    turned = {"failed_from": "2026-05-05T00:00:00Z", "failed_to": "2026-05-04T00:00:00Z"}

    assert refusals(turned) == [("failed_to", "turned")]


def test_both_ends_of_a_time_range_may_be_the_same() -> None:
    moment = "2026-05-05T00:00:00Z"

    assert read({"failed_from": moment, "failed_to": moment}).failed_to is not None


@pytest.mark.parametrize(
    ("parts", "refusal"),
    [
        ({"queue": ""}, ("queue", "string_too_short")),
        ({"queue": 5}, ("queue", "string_type")),
        ({"stream": ""}, ("stream", "string_too_short")),
        ({"queue": "a\0b"}, ("queue", "unclean")),
        ({"queue": "\u00e4" * 1000}, ("queue", "unclean")),
        ({"failed_from": 5}, ("failed_from", "time_shape")),
        ({"attempts_at_least": 0}, ("attempts_at_least", "greater_than_equal")),
        ({"attempts_at_least": 2**31}, ("attempts_at_least", "less_than_equal")),
        ({"attempts_at_least": "3"}, ("attempts_at_least", "int_type")),
        ({"attempts_at_least": True}, ("attempts_at_least", "int_type")),
        ({"disposition": "held"}, ("disposition", "enum")),
        ({"ids": []}, ("ids", "too_short")),
        ({"ids": "a"}, ("ids", "list_type")),
        ({"ids": ["a", ""]}, ("ids.1", "no_id")),
        ({"ids": [5]}, ("ids.0", "string_type")),
        ({"ids": ["a"] * 100_001}, ("ids", "too_long")),
        ("orders", ("", "model_type")),
        (None, ("", "model_type")),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_field(
    parts: Any, refusal: tuple[str, str]
) -> None:
    assert refusals(parts) == [refusal]
