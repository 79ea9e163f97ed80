"""id_prefix: what begins so, of failed messages, operations and groups."""

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.factories import failure

TWINS = ("11111111-2222-3333-4444-000000000001", "11111111-2222-3333-4444-000000000002")
LISTS = ("errors", "operations", "recoverability/groups")


def test_messages_are_found_by_the_beginning_of_their_id(api: Api) -> None:
    *_, other = api.receive(*(failure(stamped_id=twin) for twin in TWINS), failure())

    assert sorted(api.ids("errors", id_prefix="11111111")) == list(TWINS)
    assert api.ids("errors", id_prefix=TWINS[1]) == [TWINS[1]]
    assert api.ids("errors", id_prefix=other[:9].upper()) == [other]


def test_other_filters_still_hold(api: Api) -> None:
    first, second = (
        failure(stamped_id=twin, queue=queue) for twin, queue in zip(TWINS, "ab", strict=True)
    )
    api.receive(first, second)

    assert api.ids("errors", id_prefix="11111111", queue="b") == [TWINS[1]]


def test_operations_are_found_by_the_beginning_of_their_id(api: Api) -> None:
    keys = [api.http.post("/api/errors/retry/all").json()["operation_id"] for _ in range(3)]

    assert api.ids("operations", id_prefix=keys[1][:8]) == [keys[1]]


def test_the_total_counts_what_begins_so(api: Api) -> None:
    keys = [api.http.post("/api/errors/retry/all").json()["operation_id"] for _ in range(3)]

    answer = api.http.get("/api/operations", params={"id_prefix": keys[1][:8]})

    assert answer.headers["Total-Count"] == "1"


def test_groups_are_found_by_the_beginning_of_their_id(api: Api) -> None:
    api.receive(failure(queue="a"), failure(queue="b"), failure(queue="b"))
    groups = {each["title"]: each for each in api.get("recoverability/groups/Endpoint Address")}

    (found,) = api.get("recoverability/groups/Endpoint Address", id_prefix=groups["b"]["id"][:8])

    assert found == groups["b"]


def test_a_group_without_unresolved_messages_is_found_too(api: Api) -> None:
    (unique_id,) = api.receive(failure())
    (group,) = api.get("recoverability/groups")
    api.set_status(unique_id, FailedMessageStatus.ARCHIVED)
    assert api.get("recoverability/groups") == []

    (found,) = api.get("recoverability/groups", id_prefix=group["id"][:8])

    assert (found["id"], found["count"]) == (group["id"], 0)


def test_a_group_that_is_found_tells_of_its_retry_and_of_no_other_group(api: Api) -> None:
    api.receive(failure(queue="a"), failure(queue="b"))
    keys = {g["title"]: g["id"] for g in api.get("recoverability/groups/Endpoint Address")}
    for key in keys.values():
        api.http.post(f"/api/recoverability/groups/{key}/errors/retry")

    found = api.get("recoverability/groups/Endpoint Address", id_prefix=keys["a"][:8])

    assert [(each["id"], each["operation_status"]) for each in found] == [(keys["a"], "Waiting")]


def test_a_group_of_another_classifier_is_not_found(api: Api) -> None:
    api.receive(failure())
    (group,) = api.get("recoverability/groups")

    assert api.get("recoverability/groups/Message Type", id_prefix=group["id"][:8]) == []


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("prefix", ["1234567", "orders", "1234567%", "12345678901"])
def test_what_no_id_begins_with_is_refused(api: Api, path: str, prefix: str) -> None:
    answer = api.http.get(f"/api/{path}", params={"id_prefix": prefix})

    assert answer.status_code == 400
    assert "id_prefix" in answer.json()["detail"]


@pytest.mark.parametrize("path", LISTS)
def test_nothing_that_begins_so_is_an_empty_list(api: Api, path: str) -> None:
    assert api.get(path, id_prefix="12345678") == []
