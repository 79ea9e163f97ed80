"""The list of messages: filtered, sorted, selected, and what is done with those selected."""

import re
from datetime import timedelta

import httpx
import pytest

from retrier.clock import SystemClock
from retrier.domain.failed_message import FailedMessageStatus
from tests.support.disposing import DUE, make_dead, schedule
from tests.support.factories import FAILED_AT, failure
from tests.support.web import Web, forms_of

ROW = re.compile(r'data-row="message/([^"]+)"')


def listed(html: str) -> list[str]:
    return ROW.findall(html)


def statuses(web: Web) -> list[str]:
    return sorted(each["status"] for each in web.api.get("errors"))


def follow(web: Web, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["Location"])


def ask(web: Web, act: str, to: str, **selected: str) -> dict[str, str]:
    return forms_of(web.get("/messages/selected", act=act, **selected))[to]


def operations(web: Web) -> list[dict[str, object]]:
    found: list[dict[str, object]] = web.api.get("operations")
    return found


def test_unresolved_messages_are_listed_the_last_failure_first(web: Web) -> None:
    later = FAILED_AT + timedelta(hours=1)
    old, new, done = web.api.receive(failure(), failure(time_of_failure=later), failure())
    web.api.set_status(done, FailedMessageStatus.RESOLVED)

    assert listed(web.get("/messages")) == [new, old]


def test_a_row_tells_the_cause_then_where_then_how_often(web: Web) -> None:
    web.api.receive(failure(queue="orders", exception_message="nothing left"))

    html = web.get("/messages")

    assert html.index("Shop.OutOfStock") < html.index("nothing left") < html.index("orders</bdi>")
    assert re.search(r'data-label="Attempts">1<', html)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue", "stock"),
        ("endpoint", "Depot"),
        ("message_type", "Shop.Count"),
        ("exception_type", "Shop.NoStock"),
        ("message_id", "order-7"),
        ("text", "NoStock"),
        ("failed_from", "2026-05-04T12:30"),
    ],
)
def test_a_condition_narrows_the_list_and_is_a_token(web: Web, name: str, value: str) -> None:
    _, wanted = web.api.receive(
        failure(),
        failure(
            queue="stock",
            endpoint="Depot",
            message_type="Shop.Count",
            exception_type="Shop.NoStock",
            message_id="order-7",
            time_of_failure=FAILED_AT + timedelta(hours=1),
        ),
    )

    html = web.get("/messages", **{name: value})

    assert listed(html) == [wanted]
    assert html.count('title="Without this"') == 1


def test_how_long_ago_is_a_condition_and_stays_the_same_moment(web: Web) -> None:
    now = SystemClock().now()
    _, late = web.api.receive(
        failure(time_of_failure=now - timedelta(hours=3)),
        failure(time_of_failure=now - timedelta(hours=1)),
    )

    html = web.get("/messages", failed_from="2h")

    assert listed(html) == [late]
    shown = re.search(r'name="failed_from" value="([^"]+)"', html)
    assert shown is not None
    assert listed(web.get("/messages", failed_from=shown[1])) == [late]


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("2026-05-04", timedelta(hours=12)),
        ("2026-05-04T12:00", timedelta(minutes=1)),
        ("2026-05-04T12:00:00", timedelta(seconds=1)),
        ("2026-05-04T12:00:00.000000", timedelta(microseconds=1)),
    ],
)
def test_the_end_of_a_range_reaches_as_far_as_it_is_written(
    web: Web, written: str, length: timedelta
) -> None:
    outside = FAILED_AT + length
    within, _ = web.api.receive(
        failure(time_of_failure=outside - timedelta(microseconds=1)),
        failure(time_of_failure=outside),
    )

    assert listed(web.get("/messages", failed_to=written)) == [within]


def test_a_group_is_a_token_by_its_title(web: Web) -> None:
    wanted, _ = web.api.receive(failure(), failure(exception_type="Shop.NoStock"))
    (group,) = set(re.findall(r"/messages\?group=([^\"]+)\"><bdi>Shop.OutOf", web.get("/groups")))

    html = web.get("/messages", group=group)

    assert listed(html) == [wanted]
    assert re.search(r'class="soft">group</span> <bdi>Shop\.OutOfStock: ', html)


@pytest.mark.parametrize("name", ["host", "process", "node"])
def test_where_it_failed_is_a_condition_with_a_token(web: Web, name: str) -> None:
    wanted, other = web.api.receive(failure(**{name: "7"}), failure(**{name: "70"}))

    html = web.get("/messages", **{name: "7"})

    assert wanted in html
    assert other not in html
    assert f'class="soft">{name}</span> <bdi>7<' in html


def test_a_stream_is_a_condition_with_a_token(web: Web) -> None:
    wanted, _ = web.api.receive(failure(stream_id="order 42"), failure())

    html = web.get("/messages", stream="order 42")

    assert listed(html) == [wanted]
    assert 'class="soft">stream</span> <bdi>order 42<' in html


def test_each_token_is_taken_away_alone(web: Web) -> None:
    web.api.receive(failure())

    html = web.get("/messages", queue="orders", endpoint="Sales")

    assert 'href="/messages?queue=orders" aria-label="Without endpoint Sales"' in html
    assert 'href="/messages?endpoint=Sales" aria-label="Without queue orders"' in html


def test_dead_as_a_status_is_the_disposition_of_unresolved_ones(web: Web) -> None:
    one, _ = web.api.receive(failure(), failure())
    make_dead(web.api.db, one)

    html = web.get("/messages", status="dead")

    assert listed(html) == [one]
    assert 'value="dead" selected' in html
    assert web.http.get("/messages?status=dead&disposition=scheduled").status_code == 400


def test_dead_as_a_status_is_what_is_selected_too(web: Web) -> None:
    one, _ = web.api.receive(failure(), failure())
    make_dead(web.api.db, one)

    form = ask(web, "archive", "/messages/archive", all="1", status="dead")
    follow(web, web.post("/messages/archive", form))

    assert [each["id"] for each in web.api.get("errors") if each["status"] == "archived"] == [one]


def test_attempts_and_dispositions_are_conditions(web: Web) -> None:
    first = failure()
    one, _ = web.api.receive(first, failure())
    make_dead(web.api.db, one)

    assert listed(web.get("/messages", disposition="dead")) == [one]
    assert listed(web.get("/messages", attempts_at_least="2")) == []


def test_dead_and_scheduled_are_shown_with_words(web: Web) -> None:
    dead, scheduled = web.api.receive(failure(), failure())
    make_dead(web.api.db, dead)
    schedule(web.api.db, scheduled)

    html = web.get("/messages")

    assert "failed 3 of 3 times, by rule payments" in html
    assert ">scheduled for <time" in html
    assert DUE.strftime("%Y-%m-%dT%H:%M:%S") in html


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("failed_from", "yesterday"),
        ("failed_from", "0001-01-01T00:00:00+23:00"),
        ("attempts_at_least", "many"),
        ("disposition", "lost"),
        ("status", "lost"),
        ("queue", "q" * 2000),
        ("text", "x" * 2000),
    ],
)
def test_a_condition_that_cannot_be_understood_is_refused_in_words(
    web: Web, name: str, value: str
) -> None:
    answer = web.http.get("/messages", params={name: value})

    assert answer.status_code == 400
    assert "This cannot be asked" in answer.text


def test_every_status_can_be_listed(web: Web) -> None:
    one, other = web.api.receive(failure(), failure())
    web.api.set_status(one, FailedMessageStatus.ARCHIVED)

    assert listed(web.get("/messages", status="archived")) == [one]
    assert set(listed(web.get("/messages", status="all"))) == {one, other}
    assert listed(web.get("/messages", status="retryIssued")) == []


def test_a_list_is_sorted_and_its_heading_turns_it_round(web: Web) -> None:
    web.api.receive(failure(message_type="B"), failure(message_type="A"))

    html = web.get("/messages", sort="message_type", direction="asc")

    assert html.index(">A</bdi>") < html.index(">B</bdi>")
    assert 'aria-sort="ascending"><a href="/messages?sort=message_type"' in html


def test_a_list_has_pages(web: Web) -> None:
    web.api.receive(*(failure() for _ in range(51)))

    html = web.get("/messages", page="2")

    assert len(listed(html)) == 1
    assert "of 51 messages" in html


def test_selected_messages_are_retried_after_a_preview(web: Web) -> None:
    one, other, _ = web.api.receive(failure(), failure(), failure())
    preview = web.http.get("/messages/selected", params={"act": "retry", "id": [one, other]})

    web.post("/messages/retry", forms_of(preview.text)["/messages/retry"])

    assert "Retry 2 messages?" in preview.text
    (asked,) = operations(web)
    assert asked["total"] == 2


def test_all_that_match_are_retried_as_a_selection(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="orders"), failure(queue="stock"))
    form = ask(web, "retry", "/messages/retry", all="1", queue="orders")

    html = follow(web, web.post("/messages/retry", {**form, "why": "fixed"}))

    (asked,) = operations(web)
    assert (asked["total"], asked["originator"], asked["why"]) == (
        2,
        "retry of queue orders",
        "fixed",
    )
    assert "Retry of 2 messages asked for." in html
    assert "ids" not in form


def test_dead_ones_are_left_out_and_said(web: Web) -> None:
    dead, _ = web.api.receive(failure(), failure())
    make_dead(web.api.db, dead)

    html = web.get("/messages/selected", act="retry", all="1")

    assert "Retry 1 message?" in html
    assert "<b>1</b>: it is dead, and dead messages were not asked for" in html


def test_what_fails_after_the_preview_is_not_retried(web: Web) -> None:
    web.api.receive(failure())
    form = ask(web, "retry", "/messages/retry", all="1")
    web.api.receive(failure())

    web.post("/messages/retry", form)

    assert operations(web)[0]["total"] == 1


def test_another_selection_than_that_of_the_preview_is_refused(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="stock"))
    form = ask(web, "retry", "/messages/retry", all="1", queue="orders")

    answer = web.post("/messages/retry", {**form, "queue": "stock"})

    assert answer.status_code == 409
    assert operations(web) == []


def test_a_retry_that_is_sent_twice_is_asked_once(web: Web) -> None:
    web.api.receive(failure())
    form = ask(web, "retry", "/messages/retry", all="1")

    web.post("/messages/retry", form)
    web.post("/messages/retry", form)

    assert len(operations(web)) == 1


def test_selected_messages_are_archived_and_taken_back(web: Web) -> None:
    one, _ = web.api.receive(failure(), failure())
    form = ask(web, "archive", "/messages/archive", id=one)

    html = follow(web, web.post("/messages/archive", form))

    assert "1 message archived." in html
    assert statuses(web) == ["archived", "unresolved"]
    (undo,) = [each for each in forms_of(html) if each.endswith("/undo")]
    web.post(undo, forms_of(html)[undo])
    assert statuses(web) == ["unresolved", "unresolved"]


def test_all_that_match_are_resolved_after_a_question(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="stock"))
    html = web.get("/messages/selected", act="resolve", all="1", queue="orders")

    web.post("/messages/resolve", forms_of(html)["/messages/resolve"])

    assert "Resolve 1 message?" in html
    assert "It cannot be undone." in html
    assert statuses(web) == ["resolved", "unresolved"]


def test_what_fails_after_the_question_is_neither_archived_nor_resolved(web: Web) -> None:
    web.api.receive(failure())
    form = ask(web, "resolve", "/messages/resolve", all="1")
    web.api.receive(failure())

    web.post("/messages/resolve", form)

    assert statuses(web) == ["resolved", "unresolved"]


def test_archived_ones_are_unarchived(web: Web) -> None:
    (one,) = web.api.receive(failure())
    web.api.set_status(one, FailedMessageStatus.ARCHIVED)
    form = ask(web, "unarchive", "/messages/unarchive", all="1", status="archived")

    web.post("/messages/unarchive", form)

    assert statuses(web) == ["unresolved"]


@pytest.mark.parametrize(
    ("status", "act"),
    [("archived", "retry"), ("resolved", "archive"), ("retryIssued", "archive")],
)
def test_an_act_that_does_not_fit_the_list_is_refused(web: Web, status: str, act: str) -> None:
    web.api.receive(failure())

    answer = web.http.get("/messages/selected", params={"act": act, "all": 1, "status": status})

    assert answer.status_code == 400


@pytest.mark.parametrize("page", ["/messages", "/archived", "/pending"])
def test_a_condition_of_blanks_is_one(web: Web, page: str) -> None:
    web.api.receive(failure(queue="orders"))

    assert "orders" not in web.get(page, queue=" ")


def test_nothing_selected_asks_for_nothing(web: Web) -> None:
    web.api.receive(failure())

    answer = web.http.get("/messages/selected", params={"act": "retry"})

    assert "Nothing was selected" in follow(web, answer)


@pytest.mark.parametrize("act", ["retry", "again", "archive", "resolve"])
def test_a_form_without_a_selection_does_nothing(web: Web, act: str) -> None:
    web.api.receive(failure())

    answer = web.post(f"/messages/{act}", {"key": "k"})

    assert answer.status_code == 400
    assert statuses(web) == ["unresolved"]


def test_a_form_without_the_bound_of_its_question_does_nothing(web: Web) -> None:
    web.api.receive(failure())

    answer = web.post("/messages/resolve", {"key": "k", "all": "1"})

    assert answer.status_code == 409
    assert statuses(web) == ["unresolved"]


def test_over_several_statuses_all_that_match_cannot_be_selected(web: Web) -> None:
    web.api.receive(failure())

    assert 'name="all"' not in web.get("/messages", status="all")
    answer = web.http.get(
        "/messages/selected", params={"act": "archive", "all": 1, "status": "all"}
    )
    assert answer.status_code == 400


def test_new_rows_wait_behind_a_number(web: Web) -> None:
    web.api.receive(failure())

    html = web.get("/messages")

    assert re.search(r'data-news-since="\d+" data-news-value="failures"', html)


def test_a_hostile_filter_is_shown_and_not_run(web: Web) -> None:
    html = web.get("/messages", queue='"><script>alert(1)</script>')

    assert "<script>alert" not in html


def test_an_empty_list_says_what_to_do(web: Web) -> None:
    assert "Take a condition away" in web.get("/messages", queue="nowhere")
    assert "No message is unresolved." in web.get("/messages")


def test_rows_that_failed_alike_can_be_told_apart(web: Web) -> None:
    web.api.receive(
        failure(message_id="order-1", body=b'{"order": 4711,\n "lines": [' + b"1, " * 50 + b"1]}"),
        failure(message_id="order-2", body=b"\x00\x01\x02\x03"),
    )

    html = web.get("/messages")

    assert "order-1</bdi>" in html
    assert "order-2</bdi>" in html
    assert "{&#34;order&#34;: 4711, &#34;lines&#34;: [1, 1, 1, 1, 1, 1, 1," in html
    assert "…</bdi>" in html
