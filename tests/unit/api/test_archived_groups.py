"""Groups of archived messages: ServicePulse's deleted message groups, from which they are restored."""

from datetime import timedelta

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure

LIST = "errors/groups/Message%20Type"
LATER = FAILED_AT + timedelta(hours=1)


def archive(api: Api, *ids: str) -> None:
    for each in ids:
        api.set_status(each, FailedMessageStatus.ARCHIVED)


def test_a_group_counts_its_archived_messages(api: Api) -> None:
    ids = api.receive(
        failure(message_type="A"),
        failure(message_type="A", time_of_failure=LATER),
        failure(message_type="A"),
        failure(message_type="B"),
    )
    archive(api, *ids[:2])

    (group,) = api.get(LIST)

    assert set(group) == {"id", "title", "type", "count", "first", "last"}
    assert (group["title"], group["type"], group["count"]) == ("A", "Message Type", 2)
    assert group["first"] == "2026-05-04T12:00:00.000000Z"
    assert group["last"] == "2026-05-04T13:00:00.000000Z"
    assert api.get(f"archive/groups/id/{group['id']}") == group


def test_without_a_classifier_it_is_the_first_one(api: Api) -> None:
    archive(api, *api.receive(failure()))

    assert [each["type"] for each in api.get("errors/groups")] == ["Exception Type and Stack Trace"]
    assert api.get("errors/groups/") == api.get("errors/groups")


def test_the_case_of_a_classifier_makes_no_difference(api: Api) -> None:
    archive(api, *api.receive(failure()))
    api.receive(failure())

    assert api.get("errors/groups/message%20TYPE") == api.get(LIST) != []
    groups = "recoverability/groups/"
    assert api.get(f"{groups}message%20TYPE") == api.get(f"{groups}Message%20Type") != []


def test_a_group_without_archived_messages_is_not_found(api: Api) -> None:
    api.receive(failure())
    (group,) = api.get("recoverability/groups/Message%20Type")

    assert api.get(LIST) == []
    assert api.http.get(f"/api/archive/groups/id/{group['id']}").status_code == 404
    assert api.http.get("/api/archive/groups/id/nobody").status_code == 404


def test_a_group_that_is_restored_leaves_the_list(api: Api) -> None:
    archive(api, *api.receive(failure()))
    (group,) = api.get(LIST)

    api.http.post(f"/api/recoverability/groups/{group['id']}/errors/unarchive")

    assert api.get(LIST) == []


def test_an_archived_group_shows_its_comment(api: Api) -> None:
    archive(api, *api.receive(failure()))
    (group,) = api.get(LIST)
    api.http.post(f"/api/recoverability/groups/{group['id']}/comment?comment=ask%20ada")

    assert api.get(LIST)[0]["comment"] == "ask ada"


def test_an_unknown_classifier_has_no_groups(api: Api) -> None:
    assert api.get("errors/groups/Colour") == []


def test_the_endpoints_of_messages_in_any_status_are_listed_once(api: Api) -> None:
    ids = api.receive(failure(), failure(), failure(endpoint=None, queue="billing"))
    archive(api, ids[0])

    assert [each["name"] for each in api.get("endpoints")] == ["Sales", "billing"]
