"""Comments on groups over HTTP."""

import pytest
from sqlalchemy import select

from retrier.domain.comments import LONGEST
from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.schema import event_log
from tests.support.api import Api
from tests.support.factories import failure

BY_QUEUE = "recoverability/groups/Endpoint Address"
NOBODY = "00000000-0000-4000-8000-000000000000"
HOSTILE = (
    "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE} 100% & #1 + 'x' \N{PILE OF POO}\nsecond"
)


@pytest.fixture
def group_id(api: Api) -> str:
    """Give the id of a group with one message."""
    api.receive(failure(queue="orders"))
    (group,) = api.get(BY_QUEUE)
    return str(group["id"])


def write(api: Api, group_id: str, text: str, who: str = "ada") -> int:
    return api.http.post(
        f"/api/recoverability/groups/{group_id}/comment",
        params={"comment": text},
        headers={"X-Retrier-User": who},
    ).status_code


def delete(api: Api, group_id: str) -> int:
    return api.http.delete(f"/api/recoverability/groups/{group_id}/comment").status_code


def comment(api: Api) -> object:
    (group,) = api.get(BY_QUEUE)
    return group.get("comment")


def kinds(api: Api) -> list[str]:
    with api.db.engine.begin() as conn:
        query = select(event_log.c.kind).order_by(event_log.c.event_id)
        return [kind for kind in conn.execute(query).scalars() if "comment" in kind]


def test_one_is_shown_with_its_group_at_once(api: Api, group_id: str) -> None:
    assert write(api, group_id, "ask the warehouse") == 202

    (group,) = api.get(BY_QUEUE)
    assert group["comment"] == "ask the warehouse"
    assert group["commented_by"].startswith("ada (")
    assert api.get(f"recoverability/groups/id/{group_id}")["comment"] == "ask the warehouse"


def test_a_group_has_one_comment_at_most(api: Api, group_id: str) -> None:
    write(api, group_id, "first")

    write(api, group_id, "second")

    assert comment(api) == "second"


def test_the_answer_to_a_list_that_was_seen_changes_with_it(api: Api, group_id: str) -> None:
    seen = api.http.get(f"/api/{BY_QUEUE}").headers["ETag"]

    write(api, group_id, "new")

    answer = api.http.get(f"/api/{BY_QUEUE}", headers={"If-None-Match": seen})
    assert answer.status_code == 200


def test_one_is_deleted(api: Api, group_id: str) -> None:
    write(api, group_id, "first")

    assert delete(api, group_id) == 202

    assert comment(api) is None


def test_nothing_to_delete_is_a_success_without_an_event(api: Api, group_id: str) -> None:
    assert delete(api, group_id) == 202

    assert kinds(api) == []


def test_each_change_is_an_event_and_the_same_again_is_none(api: Api, group_id: str) -> None:
    write(api, group_id, "first")
    write(api, group_id, "first")
    delete(api, group_id)

    assert kinds(api) == ["group_commented", "group_comment_deleted"]


def test_an_unknown_group_has_none(api: Api) -> None:
    assert [write(api, each, "x") for each in (NOBODY, "no-id")] == [404, 404]
    assert [delete(api, each) for each in (NOBODY, "no-id")] == [404, 404]


@pytest.mark.parametrize("text", ["", " \n ", "x" * (LONGEST + 1)])
def test_what_is_empty_or_too_long_is_refused_with_the_field(
    api: Api, group_id: str, text: str
) -> None:
    answer = api.http.post(
        f"/api/recoverability/groups/{group_id}/comment", params={"comment": text}
    )

    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == ["query.comment"]
    assert comment(api) is None


def test_the_longest_one_is_kept_whole(api: Api, group_id: str) -> None:
    longest = "\N{PILE OF POO}" * LONGEST

    write(api, group_id, longest)

    assert comment(api) == longest


def test_without_a_text_it_is_refused(api: Api, group_id: str) -> None:
    answer = api.http.post(f"/api/recoverability/groups/{group_id}/comment")

    assert answer.status_code == 400


def test_hostile_text_comes_back_as_it_was_written(api: Api, group_id: str) -> None:
    write(api, group_id, HOSTILE)

    assert comment(api) == HOSTILE


def test_text_that_a_client_did_not_encode_is_kept_whole(api: Api, group_id: str) -> None:
    path = f"/api/recoverability/groups/{group_id}/comment"

    api.http.post(f"{path}?comment=look%20&%20see%20100%%20")

    assert comment(api) == "look & see 100%"


def test_a_plus_beside_encoded_blanks_is_kept(api: Api, group_id: str) -> None:
    api.http.post(f"/api/recoverability/groups/{group_id}/comment?comment=ada%20+%20bob")

    assert comment(api) == "ada + bob"


def test_a_plus_without_encoded_blanks_is_a_blank(api: Api, group_id: str) -> None:
    api.http.post(f"/api/recoverability/groups/{group_id}/comment?comment=ask+ada")

    assert comment(api) == "ask ada"


def test_a_group_that_is_being_retried_takes_one(api: Api, group_id: str) -> None:
    api.http.post(f"/api/recoverability/groups/{group_id}/errors/retry")

    assert write(api, group_id, "sent at noon") == 202

    assert comment(api) == "sent at noon"


def test_one_stays_while_its_group_is_archived(api: Api) -> None:
    (message,) = api.receive(failure(queue="orders"))
    (group,) = api.get(BY_QUEUE)
    write(api, group["id"], "known")

    api.set_status(message, FailedMessageStatus.ARCHIVED)

    assert api.get(f"recoverability/groups/id/{group['id']}")["comment"] == "known"
    api.set_status(message, FailedMessageStatus.UNRESOLVED)
    assert comment(api) == "known"
