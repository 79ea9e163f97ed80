"""GET /api/errors and the lists like it: what they hold, filtered and in pages."""

from datetime import timedelta
from itertools import chain

import pytest

from retrier.domain.failed_message import FailedMessageStatus
from tests.support.api import Api
from tests.support.factories import FAILED_AT, failure
from tests.support.web import Web

MINUTE = timedelta(minutes=1)


def test_an_item_has_what_clients_of_servicecontrol_read(api: Api) -> None:
    made = failure(queue="orders", endpoint="Sales")
    (unique_id,) = api.receive(made)

    (item,) = api.get("errors")

    assert item == {
        "id": unique_id,
        "message_type": "Shop.PlaceOrder",
        "time_sent": "2026-05-04T11:59:50.000000Z",
        "is_system_message": False,
        "exception": {
            "exception_type": "Shop.OutOfStock",
            "message": "nothing left",
            "stack_trace": made.details.stack_trace,
        },
        "message_id": made.message_id,
        "number_of_processing_attempts": 1,
        "status": "unresolved",
        "receiving_endpoint": {
            "name": "Sales",
            "host_id": "00000000-0000-0000-0000-000000000000",
            "host": "",
        },
        "queue_address": "orders",
        "destination": "orders",
        "reason": "handler_exception",
        "time_of_failure": "2026-05-04T12:00:00.000000Z",
        "first_failure": "2026-05-04T12:00:00.000000Z",
        "last_modified": "2026-05-04T12:00:01.000000Z",
        "edited": False,
        "disposition": "manual",
        "failure_count": 1,
    }


def test_an_item_says_on_which_machine_it_failed(api: Api) -> None:
    host_id = "0d6e3b7c-5a1f-4e2f-9b6c-7d8e9f0a1b2c"
    wrote = {
        "NServiceBus.FailedQ": "orders",
        "NServiceBus.ProcessingEndpoint": "Sales",
        "$.diagnostics.hostdisplayname": "box-7",
        "$.diagnostics.hostid": host_id.replace("-", ""),
    }
    api.receive(failure(host="box-1", process="4711", node="w1@box-1", message_type="A"))
    api.receive(failure(host="box-7", dialect="nservicebus", headers=wrote, message_type="B"))

    ours, theirs = sorted(api.get("errors"), key=lambda each: each["message_type"])

    assert ours["receiving_endpoint"] == {
        "name": "Sales",
        "host_id": "00000000-0000-0000-0000-000000000000",
        "host": "box-1",
    }
    assert (ours["process"], ours["node"]) == ("4711", "w1@box-1")
    assert theirs["receiving_endpoint"] == {"name": "Sales", "host_id": host_id, "host": "box-7"}


def test_an_item_without_exception_and_endpoint_still_has_both_members(api: Api) -> None:
    bare = {"endpoint": None, "exception_type": None, "exception_message": None}
    api.receive(failure(**bare, stack_trace=None, failure_reason="rejected", queue="orders"))

    (item,) = api.get("errors")

    assert item["exception"] == {"message": "rejected", "stack_trace": ""}
    assert item["receiving_endpoint"]["name"] == "orders"


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("unresolvd", "No status is called unresolvd; perhaps unresolved is meant"),
        ("archived,retry", "No status is called retry"),
        ("-resolve", "perhaps resolved is meant"),
        (" , ", "It names no status"),
        ("sleeping", "A status is one of: unresolved, retry_issued, resolved, archived."),
    ],
)
def test_a_status_that_is_none_is_refused_on_the_list_and_the_page(
    api: Api, status: str, says: str
) -> None:
    """Left out, it would list more, and the list goes into a pipe."""
    answer = api.http.get("/api/errors", params={"status": status})

    assert answer.status_code == 400
    assert says in answer.json()["errors"][0]["reason"]
    page = Web(api).http.get("/messages", params={"status": status})
    assert (page.status_code, says.lower() in page.text.lower()) == (400, True)


@pytest.mark.parametrize(
    ("status", "listed"),
    [
        ("", {"unresolved", "retryIssued", "archived", "resolved"}),
        ("unresolved", {"unresolved"}),
        ("retryIssued", {"retryIssued"}),
        ("RetryIssued, archived", {"retryIssued", "archived"}),
        ("-archived", {"unresolved", "retryIssued", "resolved"}),
        ("unresolved,archived,-archived", {"unresolved"}),
        ("archived,-archived", set()),
    ],
)
def test_the_status_filter_includes_and_excludes(api: Api, status: str, listed: set[str]) -> None:
    unique_ids = api.receive(*(failure() for _ in FailedMessageStatus))
    for unique_id, each in zip(unique_ids, FailedMessageStatus, strict=True):
        api.set_status(unique_id, each)

    items = api.get("errors", status=status)

    assert {item["status"] for item in items} == listed


def test_the_modified_filter_includes_both_ends(api: Api) -> None:
    times = [FAILED_AT + n * MINUTE for n in range(4)]
    unique_ids = api.receive(*(failure(received_at=time) for time in times))

    found = api.ids(modified=f"{times[1].isoformat()}...2026-05-04T12:02:00Z")

    assert sorted(found) == sorted(unique_ids[1:3])


def test_a_time_without_offset_is_utc(api: Api) -> None:
    api.receive(failure(received_at=FAILED_AT))

    assert len(api.ids(modified="2026-05-04T12:00:00...2026-05-04T12:00:00")) == 1


@pytest.mark.parametrize(
    "modified",
    [
        "yesterday",
        "2026-05-04...",
        "...",
        "2026-05-04T12:00Z",
        "x...y",
        "0001-01-01T00:00+09:00...y",
    ],
)
def test_a_malformed_time_range_is_refused(api: Api, modified: str) -> None:
    answer = api.http.get("/api/errors", params={"modified": modified})

    assert answer.status_code == 400
    assert "ISO 8601" in answer.json()["detail"]


@pytest.mark.parametrize(
    "parameter",
    [
        {"queueaddress": "a/b c"},
        {"queueAddress": "a/b c"},
        {"queue": "a/b c"},
        {"endpoint": "Versand/Süd"},
        {"exception_type": "Wanted"},
        {"message_type": "Wanted"},
    ],
)
def test_a_filter_lists_its_messages_only(api: Api, parameter: dict[str, str]) -> None:
    wanted, _other = api.receive(
        failure(
            queue="a/b c", endpoint="Versand/Süd", exception_type="Wanted", message_type="Wanted"
        ),
        failure(),
    )

    assert api.ids(**parameter) == [wanted]


def test_an_empty_filter_filters_nothing(api: Api) -> None:
    api.receive(failure(), failure())

    assert len(api.ids(queueaddress="", status="", modified="", sort="")) == 2


def test_the_group_filter_lists_its_messages_only(api: Api) -> None:
    wanted, _other = api.receive(failure(queue="a"), failure(queue="b"))
    groups = api.get("recoverability/groups/Endpoint Address")
    (group,) = (each["id"] for each in groups if each["title"] == "a")

    assert api.ids(group=group) == [wanted]
    assert api.ids(f"recoverability/groups/{group}/errors") == [wanted]


def test_other_filters_hold_within_a_group(api: Api) -> None:
    wanted, *_others = api.receive(
        failure(queue="a", message_type="A"), failure(queue="a"), failure(queue="b")
    )
    groups = api.get("recoverability/groups/Endpoint Address")
    (group,) = (each["id"] for each in groups if each["title"] == "a")

    assert api.ids(group=group, message_type="A") == [wanted]


def test_a_group_that_cannot_be_has_no_messages(api: Api) -> None:
    api.receive(failure())

    assert api.ids(group="none") == []


@pytest.mark.parametrize("name", ["Versand/Süd", "Sales", "a b", "x/errors"])
def test_an_endpoint_has_a_list_of_its_own(api: Api, name: str) -> None:
    wanted, _other = api.receive(failure(endpoint=name), failure(endpoint="Other"))

    assert api.ids(f"endpoints/{name}/errors") == [wanted]
    assert api.ids(f"endpoints/{name.replace('/', '%2F')}/errors") == [wanted]


def test_a_page_is_part_of_the_whole(api: Api) -> None:
    unique_ids = api.receive(*(failure() for _ in range(5)))

    pages = [api.ids(page=number, per_page=2, sort="id") for number in (1, 2, 3, 4)]

    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert list(chain(*pages)) == sorted(unique_ids, reverse=True)


def test_the_number_of_all_is_told_with_every_page(api: Api) -> None:
    api.receive(*(failure() for _ in range(3)))

    answer = api.http.get("/api/errors", params={"page": 2, "per_page": 2})

    assert answer.headers["Total-Count"] == "3"


def test_links_lead_through_the_pages_and_keep_the_filter(api: Api) -> None:
    api.receive(*(failure(queue="a b") for _ in range(5)))

    answer = api.http.get("/api/errors", params={"page": 2, "per_page": 2, "queue": "a b"})

    assert answer.headers["Link"] == (
        '<errors?per_page=2&queue=a+b&page=1>; rel="first", '
        '<errors?per_page=2&queue=a+b&page=1>; rel="prev", '
        '<errors?per_page=2&queue=a+b&page=3>; rel="last", '
        '<errors?per_page=2&queue=a+b&page=3>; rel="next"'
    )


def test_a_single_page_has_no_links(api: Api) -> None:
    api.receive(failure())

    assert "Link" not in api.http.get("/api/errors").headers


@pytest.mark.parametrize("number", ["", "0", "-1", "one"])
def test_a_page_that_is_none_is_the_first(api: Api, number: str) -> None:
    api.receive(failure())

    assert len(api.ids(page=number, per_page=number)) == 1


@pytest.mark.parametrize("number", ["2", "99999999", "9" * 5000])
def test_a_page_behind_the_last_is_empty(api: Api, number: str) -> None:
    api.receive(failure())

    assert api.ids(page=number) == []


def test_a_page_has_500_items_at_most(api: Api) -> None:
    api.receive(*(failure() for _ in range(501)))

    assert len(api.ids(per_page=1000)) == 500


@pytest.mark.parametrize("path", ["errors", "recoverability/groups/{group}/errors"])
def test_head_tells_the_same_as_get_without_a_body(api: Api, path: str) -> None:
    api.receive(failure())
    (group,) = api.ids("recoverability/groups/")
    address = f"/api/{path.format(group=group)}"

    head, get = api.http.head(address), api.http.get(address)

    assert head.status_code == 200
    assert head.headers == get.headers
    assert head.content == b""


def test_the_summary_counts_what_is_unresolved(api: Api) -> None:
    *_, archived = api.receive(
        failure(endpoint="Sales", message_type="A", host="box-1"),
        failure(endpoint="Sales", message_type="B", host="box-1"),
        failure(endpoint=None, message_type=None),
        failure(endpoint="Gone", host="box-2"),
    )
    api.set_status(archived, FailedMessageStatus.ARCHIVED)

    assert api.get("errors/summary") == {
        "Endpoints": {"Sales": 2, "orders": 1},
        "Hosts": {"box-1": 2},
        "Message types": {"A": 1, "B": 1},
        "Dispositions": {"manual": 3, "scheduled": 0, "dead": 0},
    }


def test_queues_are_listed_by_name_with_all_their_messages(api: Api) -> None:
    *_, archived = api.receive(failure(queue="b"), failure(queue="a"), failure(queue="b"))
    api.set_status(archived, FailedMessageStatus.ARCHIVED)

    answer = api.http.get("/api/errors/queues/addresses")

    assert answer.headers["Total-Count"] == "2"
    assert answer.json() == [
        {"physical_address": "a", "failed_message_count": 1},
        {"physical_address": "b", "failed_message_count": 2},
    ]
