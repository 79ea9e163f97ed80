"""Failure groups over HTTP."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.clock import SystemClock
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import md5_guid
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure

MINUTE = timedelta(minutes=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
"""Before any record of a test: then it is the failure that was seen first."""
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
        "first_seen": group["first_seen"],
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


def test_who_asks_for_no_page_gets_200_groups_and_is_told_how_many_there_are(api: Api) -> None:
    api.receive(*(failure(queue=f"queue {n}") for n in range(201)))

    answer = api.http.get(f"/api/{BY_QUEUE}")

    assert (len(answer.json()), answer.headers["Total-Count"]) == (200, "201")
    assert 'page=2>; rel="next"' in answer.headers["Link"]
    assert len(api.get(BY_QUEUE, page=2)) == 1


def test_pages_of_groups_show_each_of_them_once(api: Api) -> None:
    api.receive(*(failure(queue=f"queue {n}") for n in range(5)))

    pages = [api.ids(BY_QUEUE, page=number, per_page=2) for number in (1, 2, 3)]

    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(each for page in pages for each in page) == sorted(api.ids(BY_QUEUE))


def test_a_group_that_only_has_a_retry_counts_as_one_of_the_list(api: Api) -> None:
    (unique_id, _) = api.receive(failure(queue="a"), failure(queue="b"))
    emptied = next(each["id"] for each in api.get(BY_QUEUE) if each["title"] == "a")
    api.http.post(f"/api/recoverability/groups/{emptied}/errors/retry")
    api.set_status(unique_id, FailedMessageStatus.RETRY_ISSUED)

    answer = api.http.get(f"/api/{BY_QUEUE}", params={"per_page": 1, "page": 2})

    assert answer.headers["Total-Count"] == "2"
    assert [each["id"] for each in answer.json()] == [emptied]


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ({}, ["new", "old", "large"]),
        ({"sort": "last", "direction": "asc"}, ["large", "old", "new"]),
        ({"sort": "first"}, ["new", "large", "old"]),
        ({"sort": "first", "direction": "asc"}, ["old", "large", "new"]),
        ({"sort": "count"}, ["large", "old", "new"]),
    ],
)
def test_groups_are_sorted(api: Api, asked: dict[str, str], listed: list[str]) -> None:
    for minute, queue in ((0, "old"), (1, "large"), (2, "large"), (3, "old"), (4, "new")):
        api.receive(failure(queue=queue, time_of_failure=LONG_AGO + minute * MINUTE))
    api.receive(failure(queue="large", time_of_failure=LONG_AGO + 2 * MINUTE))

    assert [group["title"] for group in api.get(BY_QUEUE, **asked)] == listed


def test_groups_cannot_be_sorted_by_anything_else(api: Api) -> None:
    answer = api.http.get(f"/api/{BY_QUEUE}", params={"sort": "colour"})

    assert (answer.status_code, "last, first, count" in answer.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("text", "listed"), [("SEPA", ["sepa out"]), ("a", ["other a", "sepa out"])]
)
def test_groups_are_found_by_a_text_in_their_title(api: Api, text: str, listed: list[str]) -> None:
    api.receive(failure(queue="sepa out"), failure(queue="other a"), failure(queue="none"))

    assert sorted(group["title"] for group in api.get(BY_QUEUE, text=text)) == listed


def test_groups_first_seen_since_a_time_are_found(api: Api) -> None:
    for minute, queue in ((0, "known"), (1, "new"), (2, "known")):
        api.receive(failure(queue=queue, time_of_failure=LONG_AGO + minute * MINUTE))

    found = api.get(BY_QUEUE, since="2020-01-01T00:01:00Z")

    assert [(group["title"], group["first_seen"]) for group in found] == [
        ("new", "2020-01-01T00:01:00.000000Z")
    ]


def test_a_group_is_not_new_because_what_failed_before_is_dealt_with(api: Api) -> None:
    (before,) = api.receive(failure(queue="a"))
    api.set_status(before, FailedMessageStatus.ARCHIVED)
    (group,) = api.get(BY_QUEUE, id_prefix=md5_guid("Endpoint Addressa")[:8])
    later = SystemClock().now() + timedelta(days=1)

    api.receive(failure(queue="a", time_of_failure=later))

    (again,) = api.get(BY_QUEUE)
    assert again["first"] > again["first_seen"] == group["first_seen"]
    assert api.get(BY_QUEUE, since=later.isoformat()) == []


def test_a_group_is_new_though_its_message_failed_before_in_another(api: Api) -> None:
    api.receive(failure(queue="a", message_id="1", time_of_failure=LONG_AGO))
    again = {"exception_type": "Deployed", "time_of_failure": LONG_AGO + MINUTE}
    api.receive(failure(queue="a", message_id="1", **again))

    (group,) = api.get("recoverability/groups", since="2020-01-01T00:01:00Z")

    assert group["title"].startswith("Deployed")
    assert group["first"] == "2020-01-01T00:00:00.000000Z"


def test_a_time_that_is_none_is_refused(api: Api) -> None:
    answer = api.http.get(f"/api/{BY_QUEUE}", params={"since": "deploy"})

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "query.since"


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
    names = ("id", "title", "type", *counts, "first", "last", "first_seen")
    assert found == {name: group[name] for name in names}


def test_one_group_can_be_counted_in_another_status(api: Api) -> None:
    (unique_id,) = api.receive(failure(queue="a"))
    (group,) = api.ids(BY_QUEUE)
    api.set_status(unique_id, FailedMessageStatus.ARCHIVED)

    assert api.get(f"recoverability/groups/id/{group}")["count"] == 0
    assert api.get(f"recoverability/groups/id/{group}", status="archived")["count"] == 1


def test_an_unknown_group_is_not_found(api: Api) -> None:
    assert api.http.get("/api/recoverability/groups/id/none").status_code == 404
