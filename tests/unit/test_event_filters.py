"""Which events a filter accepts as they happen: the same as the database finds."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.domain.events import KINDS, ROUTINE, find_wrong_kind, read_kinds
from retrier.store.event_log import EventFilter, LoggedEvent

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def happened(kind: str = "retry_asked", who: str = "ada (127.0.0.1)") -> LoggedEvent:
    return LoggedEvent(
        event_id=1,
        at=NOON,
        kind=kind,
        who=who,
        text="It happened.",
        unique_message_id=None,
        operation_id=None,
        batch_id=None,
        details=None,
    )


def test_no_kind_is_listed_twice() -> None:
    assert sorted(KINDS) == sorted(set(KINDS))


@pytest.mark.parametrize("kind", sorted(ROUTINE))
def test_what_is_routine_is_told_to_who_asks_for_it(kind: str) -> None:
    event = happened(kind)

    assert not EventFilter(with_routine=False).accepts(event)
    assert EventFilter(with_routine=False, kinds=frozenset({kind})).accepts(event)
    assert EventFilter(with_routine=True).accepts(event)


@pytest.mark.parametrize("who", ["retrier", "retention", "policies"])
def test_what_no_person_did_is_not_by_people(who: str) -> None:
    assert not EventFilter(by_people=True).accepts(happened(who=who))


def test_a_person_may_be_called_like_the_service() -> None:
    assert EventFilter(by_people=True).accepts(happened(who="retrier (127.0.0.1)"))


@pytest.mark.parametrize(
    ("who", "is_found"),
    [("ada", True), ("ada (127.0.0.1)", True), ("ad", False), ("Ada", False), ("a_a", False)],
)
def test_a_person_is_found_by_name_with_and_without_the_address(
    who: str, *, is_found: bool
) -> None:
    assert EventFilter(who=who).accepts(happened()) is is_found


@pytest.mark.parametrize(
    ("since", "until", "is_found"), [(0, 0, True), (1, 2, False), (-2, -1, False)]
)
def test_both_ends_of_a_time_are_included(since: int, until: int, *, is_found: bool) -> None:
    wanted = EventFilter(
        since=NOON + timedelta(seconds=since), until=NOON + timedelta(seconds=until)
    )

    assert wanted.accepts(happened()) is is_found


def test_a_kind_that_does_not_exist_is_named_with_the_nearest() -> None:
    assert find_wrong_kind(read_kinds("retry_asked, sent_again")) is None
    assert "perhaps batch_staged is meant" in (find_wrong_kind(["batch_stagd"]) or "")
