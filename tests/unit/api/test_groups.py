"""Failure groups over HTTP."""

from datetime import timedelta

import pytest

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure

MINUTE = timedelta(minutes=1)
BY_QUEUE = "recoverability/groups/Endpoint Address"


def test_the_classifiers_are_listed_the_default_one_first(api: Api) -> None:
    answer = api.http.get("/api/recoverability/classifiers")

    assert answer.json() == list(CLASSIFIERS)
    assert answer.headers["Total-Count"] == str(len(CLASSIFIERS))


def test_a_group_counts_its_messages_from_the_first_to_the_last(api: Api) -> None:
    api.receive(*(failure(queue="a", time_of_failure=FAILED_AT + n * MINUTE) for n in range(3)))

    (group,) = api.get(BY_QUEUE)

    assert group == {
        "id": group["id"],
        "title": "a",
        "type": "Endpoint Address",
        "count": 3,
        "manual": 3,
        "scheduled": 0,
        "dead": 0,
        "first": "2026-05-04T12:00:00.000000Z",
        "last": "2026-05-04T12:02:00.000000Z",
        "operation_status": "None",
        "operation_progress": 0.0,
        "need_user_acknowledgement": False,
    }


def test_the_group_that_failed_last_comes_first(api: Api) -> None:
    for place, queue in enumerate(["b", "c", "a"]):
        api.receive(failure(queue=queue, time_of_failure=FAILED_AT + place * MINUTE))

    assert [group["title"] for group in api.get(BY_QUEUE)] == ["a", "c", "b"]


def test_only_unresolved_messages_count(api: Api) -> None:
    _kept, archived, other = api.receive(failure(queue="a"), failure(queue="a"), failure(queue="b"))
    api.set_status(archived, FailedMessageStatus.ARCHIVED)
    api.set_status(other, FailedMessageStatus.RETRY_ISSUED)

    groups = api.get(BY_QUEUE)

    assert [(group["title"], group["count"]) for group in groups] == [("a", 1)]


def test_at_most_200_groups_are_listed(api: Api) -> None:
    api.receive(*(failure(queue=f"queue {n}") for n in range(201)))

    assert len(api.get(BY_QUEUE)) == 200


@pytest.mark.parametrize("path", ["recoverability/groups", "recoverability/groups/"])
def test_without_a_name_the_default_classifier_is_meant(api: Api, path: str) -> None:
    api.receive(failure())

    assert api.get(path) == api.get(f"recoverability/groups/{CLASSIFIERS[0]}") != []


def test_a_classifier_nobody_knows_has_no_groups(api: Api) -> None:
    api.receive(failure())

    assert api.get("recoverability/groups/Colour") == []


@pytest.mark.parametrize(
    ("title", "listed"), [("a", ["a"]), ("A", []), ("", ["a", "b"]), ("undefined", ["a", "b"])]
)
def test_groups_are_filtered_by_their_exact_title(api: Api, title: str, listed: list[str]) -> None:
    api.receive(failure(queue="a"), failure(queue="b"))

    groups = api.get(BY_QUEUE, classifierFilter=title)

    assert sorted(group["title"] for group in groups) == listed


def test_a_group_shows_the_retry_alive_for_it(api: Api) -> None:
    api.receive(failure(queue="a"))
    (group,) = api.ids(BY_QUEUE)
    operation = api.http.post(f"/api/recoverability/groups/{group}/errors/retry").json()

    (shown,) = api.get(BY_QUEUE)

    assert shown["operation_id"] == operation["operation_id"]
    assert shown["operation_status"] == "Waiting"
    assert (shown["operation_remaining_count"], shown["operation_progress"]) == (1, 0.0)


def test_a_group_is_listed_as_long_as_its_retry_is_alive(api: Api) -> None:
    (unique_id,) = api.receive(failure(queue="a"))
    (group,) = api.ids(BY_QUEUE)
    api.http.post(f"/api/recoverability/groups/{group}/errors/retry")
    api.set_status(unique_id, FailedMessageStatus.RETRY_ISSUED)

    (shown,) = api.get(BY_QUEUE)

    assert (shown["id"], shown["count"], shown["operation_status"]) == (group, 0, "Waiting")


def test_one_group_is_found_by_its_id(api: Api) -> None:
    api.receive(failure(queue="a"))
    (group,) = api.get(BY_QUEUE)

    found = api.get(f"recoverability/groups/id/{group['id']}")

    counts = ("count", "manual", "scheduled", "dead")
    names = ("id", "title", "type", *counts, "first", "last")
    assert found == {name: group[name] for name in names}


def test_one_group_can_be_counted_in_another_status(api: Api) -> None:
    (unique_id,) = api.receive(failure(queue="a"))
    (group,) = api.ids(BY_QUEUE)
    api.set_status(unique_id, FailedMessageStatus.ARCHIVED)

    assert api.get(f"recoverability/groups/id/{group}")["count"] == 0
    assert api.get(f"recoverability/groups/id/{group}", status="archived")["count"] == 1


def test_an_unknown_group_is_not_found(api: Api) -> None:
    assert api.http.get("/api/recoverability/groups/id/none").status_code == 404
