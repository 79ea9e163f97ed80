"""Acts on many messages over HTTP: asked for, seen before, looked at, undone; and their groups."""

from typing import Any

import pytest

from retrier.domain.archive_operation import AT_ONCE
from retrier.store.archive import acknowledge_archives
from retrier.store.engine.database import Database
from tests.contract.store_retries import SENT, bring_to
from tests.support.api import Api
from tests.support.archiving import make_archiving, work_off_all
from tests.support.bench import Bench
from tests.support.factories import failure

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

MANY = AT_ONCE + 1


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def ask(api: Api, act: str = "archive", **selection: Any) -> Any:
    answer = api.http.post(
        "/api/archive_operations", json={"act": act, "selection": selection, "why": "a test"}
    )
    assert answer.status_code == 202, answer.text
    return answer.json()


def group_of(api: Api, title: str = "A") -> Any:
    groups = api.get("recoverability/groups/Message Type")
    return next(each for each in groups if each["title"] == title)


def archive_group(api: Api, count: int) -> Any:
    """Ask for the archive of a group with so many messages; return the group's id."""
    api.receive(*(failure(message_type="A") for _ in range(count)))
    group = group_of(api)["id"]
    answer = api.http.post(f"/api/recoverability/groups/{group}/errors/archive")
    assert answer.status_code == 202
    return group


class TestARequest:
    def test_about_few_is_done(self, api: Api) -> None:
        api.receive(failure(queue="a"), failure(queue="b"))

        done = ask(api, queue="a")

        assert (done["archived"], done["total"], done["state"]) == (1, 1, "completed")
        shown = api.get(f"archive_operations/{done['operation_id']}")
        assert (shown["act"], shown["why"], shown["done"]) == ("archive", "a test", 1)
        assert shown["selection"] == {"queue": "a"}

    def test_about_many_is_written_down_and_says_where_to_look(
        self, api: Api, bench: Bench
    ) -> None:
        api.receive(*(failure() for _ in range(MANY)))

        answer = api.http.post(
            "/api/archive_operations", json={"act": "archive", "selection": {"all": True}}
        )

        where = answer.headers["Location"].removeprefix("/api/")
        assert (answer.json()["archived"], answer.json()["state"]) == (0, "waiting")
        assert api.get(where)["remaining"] == MANY
        work_off_all(bench, AT_ONCE)
        assert (api.get(where)["done"], api.get(where)["state"]) == (MANY, "completed")

    def test_wakes_who_works_it_off(self, api: Api) -> None:
        api.receive(*(failure() for _ in range(MANY)))

        ask(api, all=True)

        assert api.wakes == 1

    def test_shows_why_named_messages_were_left(self, api: Api, bench: Bench) -> None:
        ids = api.receive(*(failure() for _ in range(MANY)))

        asked = ask(api, ids=[*ids, "nobody"])
        work_off_all(bench, AT_ONCE)

        shown = api.get(f"archive_operations/{asked['operation_id']}")
        reason = "no failed message has this id"
        assert shown["skipped_messages"] == [{"id": "nobody", "reason": reason}]
        assert shown["skipped_because"] == [{"reason": reason, "count": 1}]

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"act": "archive", "selection": {}}, 422),
            ({"act": "archive"}, 422),
            ({"act": "release", "selection": {"all": True}}, 422),
            ({"act": "archive", "selection": {"colour": "red"}}, 422),
            ({"act": "archive", "selection": {"all": True}, "limit": 3}, 422),
            ({"act": "archive", "selection": {"all": True}, "why": "x" * 1001}, 422),
        ],
    )
    def test_of_the_wrong_shape_is_refused(self, api: Api, body: Any, status: int) -> None:
        assert api.http.post("/api/archive_operations", json=body).status_code == status

    def test_is_the_same_under_the_same_key_and_another_is_refused(self, api: Api) -> None:
        api.receive(failure(queue="a"), failure(queue="b"))
        key = {"Idempotency-Key": "monday"}

        def post(queue: str) -> Any:
            body = {"act": "archive", "selection": {"queue": queue}}
            return api.http.post("/api/archive_operations", json=body, headers=key)

        first, again, other = post("a"), post("a"), post("b")

        assert first.json() == again.json()
        assert other.status_code == 422
        assert len(api.ids(status="archived")) == 1

    def test_on_a_route_of_servicecontrol_has_an_operation_too(self, api: Api) -> None:
        (key,) = api.receive(failure())

        answer = api.http.patch(f"/api/errors/{key}/archive")

        where = answer.headers["Location"].removeprefix("/api/")
        assert api.get(where)["originator"] == f"archive of message {key}"


class TestAPreview:
    def test_counts_and_changes_nothing(self, api: Api, bench: Bench) -> None:
        sent = bring_to(bench, SENT)
        keys = api.receive(failure(), failure())
        body = {"act": "archive", "selection": {"ids": [*keys, sent.key, "nobody"]}}

        found = api.http.post("/api/archive_operations/preview", json=body).json()

        assert found["total"] == 2
        assert [each["count"] for each in found["skipped"]] == [1, 1]
        assert api.get("archive_operations") == []
        assert api.ids(status="archived") == []

    def test_of_a_selection_counts_what_has_the_status(self, api: Api) -> None:
        api.receive(failure(queue="a"), failure(queue="a"))
        ask(api, ids=[api.ids()[0]])

        def total(act: str) -> int:
            body = {"act": act, "selection": {"queue": "a"}}
            found = api.http.post("/api/archive_operations/preview", json=body)
            return int(found.json()["total"])

        assert (total("archive"), total("unarchive"), total("resolve")) == (1, 1, 1)


class TestUndo:
    def test_takes_back_what_it_archived(self, api: Api) -> None:
        first, second = api.receive(failure(queue="a"), failure(queue="b"))
        ask(api, queue="b")
        asked = ask(api, queue="a")
        listed = api.ids(archived_by=asked["operation_id"])

        answer = api.http.post(
            f"/api/archive_operations/{asked['operation_id']}/undo", json={"why": "wrong queue"}
        )

        assert (answer.status_code, answer.json()["unarchived"], listed) == (202, 1, [first])
        assert api.ids(status="archived") == [second]
        shown = api.get(f"archive_operations/{answer.json()['operation_id']}")
        assert (shown["undo_of"], shown["why"]) == (asked["operation_id"], "wrong queue")

    def test_of_what_did_not_archive_is_refused(self, api: Api) -> None:
        api.receive(failure(queue="a"))
        asked = ask(api, "resolve", queue="a")

        answer = api.http.post(f"/api/archive_operations/{asked['operation_id']}/undo")

        assert answer.status_code == 409

    @pytest.mark.parametrize("path", ["{}/undo", "{}"])
    def test_of_an_unknown_one_is_not_found(self, api: Api, path: str) -> None:
        address = f"/api/archive_operations/{path.format('nobody')}"
        method = "POST" if "undo" in path else "GET"

        assert api.http.request(method, address).status_code == 404


class TestTheGroupList:
    def test_says_that_the_archive_of_a_group_is_asked_for(self, api: Api) -> None:
        archive_group(api, MANY)

        found = group_of(api)

        assert found["operation_status"] == "ArchiveStarted"
        assert (found["operation_progress"], found["need_user_acknowledgement"]) == (0.0, False)

    def test_says_how_far_it_is(self, api: Api, bench: Bench) -> None:
        archive_group(api, MANY)
        make_archiving(bench, 500).work_once()

        found = group_of(api)

        assert found["operation_status"] == "ArchiveProgressing"
        counts = ("operation_messages_completed_count", "operation_remaining_count")
        assert [found[name] for name in counts] == [500, MANY - 500]
        assert found["operation_progress"] == 0.5
        assert "operation_start_time" in found

    def test_shows_it_when_it_is_done_though_nothing_is_left(self, api: Api, bench: Bench) -> None:
        archive_group(api, MANY)
        work_off_all(bench, AT_ONCE)

        found = group_of(api)

        # ServicePulse shows how many messages it was about.
        assert (found["operation_status"], found["count"]) == ("ArchiveCompleted", MANY)
        assert (found["manual"], found["scheduled"], found["dead"]) == (0, 0, 0)
        assert (found["operation_progress"], found["need_user_acknowledgement"]) == (1.0, True)
        assert "operation_completion_time" in found

    def test_does_not_show_it_when_it_was_taken_back(self, api: Api, bench: Bench) -> None:
        archive_group(api, MANY)
        work_off_all(bench, AT_ONCE)
        (archive,) = api.ids("archive_operations")

        api.http.post(f"/api/archive_operations/{archive}/undo")
        work_off_all(bench, AT_ONCE)

        found = group_of(api)
        assert (found["operation_status"], found["count"]) == ("None", MANY)

    def test_forgets_it_when_a_person_takes_note(self, api: Api) -> None:
        group = archive_group(api, 1)

        answer = api.http.delete(f"/api/recoverability/unacknowledgedgroups/{group}")

        assert answer.status_code == 200
        assert api.get("recoverability/groups/Message Type") == []
        assert acknowledge_archives(api.db, group, "ada") == 0

    def test_forgets_it_when_a_person_undoes_it(self, api: Api) -> None:
        archive_group(api, 1)
        (archived,) = api.get("archive_operations")

        api.http.post(f"/api/archive_operations/{archived['id']}/undo")

        assert group_of(api)["operation_status"] == "None"

    def test_does_not_forget_one_that_still_runs(self, api: Api) -> None:
        group = archive_group(api, MANY)

        assert acknowledge_archives(api.db, group, "ada") == 0
        assert group_of(api)["operation_status"] == "ArchiveStarted"

    def test_shows_a_retry_alive_before_an_archive_that_is_over(self, api: Api) -> None:
        group = archive_group(api, 1)
        api.receive(failure(message_type="A"))

        api.http.post(f"/api/recoverability/groups/{group}/errors/retry")

        assert group_of(api)["operation_status"] == "Waiting"
