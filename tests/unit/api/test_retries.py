"""POST .../retry: what each route asks for, and how it answers."""

from typing import Any

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.factories import failure

# What a database does here is the same on each: the routes are what is tested.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def ask(api: Api, path: str, **request: Any) -> Any:
    """Ask for a retry at a path under /api; return the operation as it is shown."""
    answer = api.http.post(f"/api/{path}", **request)
    assert answer.status_code == 202, answer.text
    return api.get(f"operations/{answer.json()['operation_id']}")


def group_of(api: Api, classifier: str, title: str) -> str:
    groups = api.get(f"recoverability/groups/{classifier}", classifierFilter=title)
    return str(groups[0]["id"])


def test_the_answer_names_the_operation(api: Api) -> None:
    api.receive(failure(), failure())

    answer = api.http.post("/api/errors/retry/all")

    assert answer.status_code == 202
    operation_id = answer.json()["operation_id"]
    assert answer.json() == {"operation_id": operation_id, "total": 2}
    assert answer.headers["Location"] == f"/api/operations/{operation_id}"
    assert api.http.get(answer.headers["Location"]).status_code == 200


def test_asking_wakes_the_processor(api: Api) -> None:
    api.http.post("/api/errors/retry/all")

    assert api.wakes == 1


def test_all_means_every_unresolved_message(api: Api) -> None:
    *_, archived = api.receive(failure(), failure(), failure())
    api.set_status(archived, FailedMessageStatus.ARCHIVED)

    operation = ask(api, "errors/retry/all")

    assert operation["retry_type"] == "all"
    assert (operation["selection"], operation["total"]) == ({}, 2)
    assert operation["originator"] == "retry of all messages"


def test_one_message_is_retried_by_its_id(api: Api) -> None:
    (unique_id,) = api.receive(failure())

    operation = ask(api, f"errors/{unique_id}/retry")

    assert operation["retry_type"] == "singleMessage"
    assert (operation["selection"], operation["total"]) == ({"ids": 1}, 1)
    assert operation["originator"] == f"retry of message {unique_id}"


def test_a_list_of_ids_is_retried_each_once(api: Api) -> None:
    first, second, _other = api.receive(failure(), failure(), failure())

    operation = ask(api, "errors/retry", json=[first, second, first])

    assert operation["retry_type"] == "multipleMessages"
    assert operation["total"] == 2


@pytest.mark.parametrize("path", ["errors/{}/retry", "errors/{}/retry/"])
def test_an_unknown_id_is_accepted_like_any_other(api: Api, path: str) -> None:
    assert ask(api, path.format("unknown"))["total"] == 1


def test_an_empty_list_is_accepted(api: Api) -> None:
    assert ask(api, "errors/retry", json=[])["total"] == 0


@pytest.mark.parametrize("queue", ["orders", "a/b", "a b", "Grüße", "retry", "a/retry", "a%b"])
def test_a_queue_is_retried_whatever_its_name(api: Api, queue: str) -> None:
    api.receive(failure(queue=queue), failure(queue="other"))

    operation = ask(api, f"errors/queues/{queue.replace('%', '%25')}/retry")

    assert operation["retry_type"] == "byQueueAddress"
    assert (operation["selection"], operation["total"]) == ({"queue": queue}, 1)
    assert operation["originator"] == f"retry of queue {queue}"


def test_a_slash_in_a_name_may_be_escaped(api: Api) -> None:
    api.receive(failure(queue="a/b"))

    assert ask(api, "errors/queues/a%2Fb/retry")["selection"] == {"queue": "a/b"}


@pytest.mark.parametrize("endpoint", ["Sales", "a/b", "a b", "Grüße", "queues", "retry"])
def test_an_endpoint_is_retried_whatever_its_name(api: Api, endpoint: str) -> None:
    api.receive(failure(endpoint=endpoint), failure(endpoint="Other"))

    operation = ask(api, f"errors/{endpoint}/retry/all")

    assert operation["retry_type"] == "allForEndpoint"
    assert (operation["selection"], operation["total"]) == ({"endpoint": endpoint}, 1)
    assert operation["originator"] == f"retry of endpoint {endpoint}"


def test_a_group_is_retried_under_its_title(api: Api) -> None:
    api.receive(failure(message_type="A"), failure(message_type="B"))
    group = group_of(api, "Message Type", "A")

    operation = ask(api, f"recoverability/groups/{group}/errors/retry")

    assert operation["retry_type"] == "failureGroup"
    assert (operation["selection"], operation["total"]) == ({"group": group}, 1)
    assert operation["originator"] == "retry of group A"


@pytest.mark.parametrize(
    "path", ["recoverability/groups/none/errors/retry", "errors/queues/none/retry"]
)
def test_what_selects_nothing_is_accepted(api: Api, path: str) -> None:
    assert ask(api, path)["total"] == 0


@pytest.mark.parametrize("ids", [[None], ["a", None], [""], [7], [["a"]], ["a\0"], ["x" * 1001]])
def test_an_id_that_is_no_text_is_refused(api: Api, ids: list[object]) -> None:
    answer = api.http.post("/api/errors/retry", json=ids)

    assert answer.status_code == 400
    assert api.get("operations") == []


def test_a_lone_surrogate_is_no_text(api: Api) -> None:
    json = {"content": b'["\\ud800"]', "headers": {"Content-Type": "application/json"}}

    assert api.http.post("/api/errors/retry", **json).status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [(b"{}", "body"), (b'"a"', "body"), (b"[", "body"), (b"null", "body"), (b"", "body")],
)
def test_a_body_of_the_wrong_shape_is_refused_by_its_field(
    api: Api, body: bytes, field: str
) -> None:
    headers = {"Content-Type": "application/json"}

    answer = api.http.post("/api/errors/retry", content=body, headers=headers)

    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["errors"]] == [field]


def test_more_than_100000_ids_are_refused(api: Api) -> None:
    answer = api.http.post("/api/errors/retry", json=["a"] * 100_001)

    assert answer.status_code == 422
    assert "100000" in answer.json()["errors"][0]["reason"]


def test_a_repeated_request_is_the_same_operation(api: Api) -> None:
    key = {"Idempotency-Key": "monday"}
    first = api.http.post("/api/errors/retry/all", headers=key)
    api.receive(failure())

    again = api.http.post("/api/errors/retry/all", headers=key)

    assert again.status_code == 202
    assert again.json() == first.json()
    assert len(api.get("operations")) == 1


def test_without_a_key_every_request_is_an_operation_of_its_own(api: Api) -> None:
    first, second = (api.http.post("/api/errors/retry/all").json() for _ in range(2))

    assert first["operation_id"] != second["operation_id"]


def test_a_key_that_is_too_long_is_refused(api: Api) -> None:
    answer = api.http.post("/api/errors/retry/all", headers={"Idempotency-Key": "x" * 256})

    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"ada", "ada"),
        (b"  ada lovelace ", "ada lovelace"),
        ("Jürgen".encode(), "Jürgen"),
        (b"a\x1b[31mb", "a [31mb"),
        (b"x" * 300, "x" * 200),
        (b"   ", "anonymous"),
    ],
)
def test_who_asks_is_kept_with_the_address(api: Api, header: bytes, name: str) -> None:
    operation = ask(api, "errors/retry/all", headers={b"X-Retrier-User": header})

    assert operation["requested_by"] == f"{name} (testclient)"


def test_who_asks_is_anonymous_without_a_name(api: Api) -> None:
    assert ask(api, "errors/retry/all")["requested_by"] == "anonymous (testclient)"


def test_asking_is_in_the_event_log(api: Api) -> None:
    operation = ask(api, "errors/retry/all", headers={"X-Retrier-User": "ada"})

    (event,) = api.get("eventlogitems")

    assert event["kind"] == "retry_asked"
    assert event["who"] == "ada (testclient)"
    assert event["related_to"] == [f"/operation/{operation['id']}"]


def test_a_browser_may_ask_from_a_page_of_the_same_origin(api: Api) -> None:
    ask(api, "errors/retry/all", headers={"Origin": "http://localhost"})

    assert api.wakes == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:81", "null"])
def test_a_browser_may_not_ask_from_a_page_of_another_origin(api: Api, origin: str) -> None:
    answer = api.http.post("/api/errors/retry/all", headers={"Origin": origin})

    assert answer.status_code == 403
    assert api.get("operations") == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "elsewhere"])
def test_a_browser_that_names_no_origin_may_not_ask_from_another_site(api: Api, site: str) -> None:
    answer = api.http.post("/api/errors/retry/all", headers={"Sec-Fetch-Site": site})

    assert answer.status_code == 403
    assert api.get("operations") == []


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_browser_may_ask_from_a_page_of_ours(api: Api, site: str) -> None:
    answer = api.http.post("/api/errors/retry/all", headers={"Sec-Fetch-Site": site})

    assert answer.status_code == 202


def test_a_browser_may_read_from_another_site(api: Api) -> None:
    """A link to the page leads to it; what is read is no other page's to see."""
    answer = api.http.get("/api/errors", headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 200


def test_of_two_origins_a_foreign_one_counts(api: Api) -> None:
    headers = [("Origin", "http://localhost"), ("Origin", "http://evil.example")]

    assert api.http.post("/api/errors/retry/all", headers=headers).status_code == 403


KEY = {"Idempotency-Key": "monday"}
ONE, OTHER = "b0f4cb64-9b3e-4a4b-9a11-0d1b6a3d2f6e", "b0f4cb64-9b3e-4a4b-9a11-0d1b6a3d2f6f"
REQUESTS: list[tuple[str, object]] = [
    ("errors/retry/all", None),
    ("errors/queues/orders/retry", None),
    ("errors/queues/bills/retry", None),
    ("errors/retry", [ONE]),
    ("errors/retry", [OTHER]),
    (f"errors/{ONE}/retry", None),
    ("pendingretries/retry", [ONE]),
    ("pendingretries/retry", [OTHER]),
]


@pytest.mark.parametrize("first", REQUESTS, ids=str)
def test_a_key_that_comes_with_another_request_is_refused_and_drops_none(
    api: Api, first: tuple[str, object]
) -> None:
    path, body = first
    created = api.http.post(f"/api/{path}", json=body, headers=KEY).json()

    others = [
        api.http.post(f"/api/{each}", json=content, headers=KEY)
        for each, content in REQUESTS
        if (each, content) != first
    ]

    assert {answer.status_code for answer in others} == {422}
    assert {"Idempotency-Key" in answer.json()["detail"] for answer in others} == {True}
    assert len(api.get("operations")) == 1
    assert api.http.post(f"/api/{path}", json=body, headers=KEY).json() == created


def test_two_keys_in_one_request_are_refused(api: Api) -> None:
    headers = [("Idempotency-Key", "monday"), ("Idempotency-Key", "tuesday")]

    answer = api.http.post("/api/errors/retry/all", headers=headers)

    assert (answer.status_code, api.get("operations")) == (400, [])


def test_a_key_of_a_retry_is_refused_for_an_archive(api: Api) -> None:
    api.http.post("/api/errors/retry/all", headers=KEY)
    body = {"act": "archive", "selection": {"all": True}}

    answer = api.http.post("/api/archive_operations", json=body, headers=KEY)

    assert (answer.status_code, api.get("archive_operations")) == (422, [])
