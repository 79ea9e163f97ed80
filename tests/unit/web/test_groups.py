"""The page of groups, and what can be done with one."""

import re
from html import unescape

import httpx
import pytest
from sqlalchemy import event

from retrier.domain.failed_message import FailedMessageStatus
from retrier.web.groups import MANY_GROUPS
from tests.support.factories import failure
from tests.support.web import Web, forms_of

TITLES = re.compile(r'<div class="cause"><a href="/messages[^"]+"><bdi>([^<]+)</bdi>')


def offered(html: str) -> str:
    """Leave out the buttons that nobody sees before the retry of their group is over."""
    hidden = r'<span data-unless="operation/[^"]+/goes" hidden>.*?</span></span>'
    return re.sub(hidden, "", html)


def titles(html: str) -> list[str]:
    return TITLES.findall(html)


def ids_of(html: str) -> list[str]:
    return re.findall(r'data-row="group/\d/([^"]+)"', html)


def only_group(web: Web) -> str:
    (found,) = ids_of(web.get("/groups"))
    return found


def retry_form(web: Web, group: str) -> dict[str, str]:
    return web.form(f"/groups/{group}/retry", f"/groups/{group}/retry")


def operations(web: Web) -> list[dict[str, object]]:
    found: list[dict[str, object]] = web.api.get("operations")
    return found


def test_hosts_are_listed_with_most_messages_first(web: Web) -> None:
    places = ("box-1", "box-2", "box-2", None)
    web.api.receive(*(failure(host=host) for host in places))

    html = web.get("/groups/hosts")

    assert 'href="/groups/hosts"' in web.get("/groups")
    assert re.findall(r'href="/messages\?host=([^"]+)"', html) == ["box-2", "box-1"]
    assert re.findall(r'data-label="Messages">(\d)', html) == ["2", "1", "1"]
    assert "those that tell no host" in html


def test_no_host_is_listed_where_nothing_is_unresolved(web: Web) -> None:
    assert "No message is unresolved." in web.get("/groups/hosts")


def test_groups_are_listed_by_any_classifier(web: Web) -> None:
    web.api.receive(failure(message_type="Shop.A"), failure(message_type="Shop.B"))

    assert sorted(titles(web.get("/groups", by="type"))) == ["Shop.A", "Shop.B"]


def test_groups_are_sorted_by_count(web: Web) -> None:
    web.api.receive(failure(queue="few"), failure(queue="many"), failure(queue="many"))

    down = titles(web.get("/groups", by="queue", sort="count"))
    up = titles(web.get("/groups", by="queue", sort="count", direction="asc"))

    assert (down, up) == (["many", "few"], ["few", "many"])


def test_a_filter_looks_at_titles_exceptions_and_queues(web: Web) -> None:
    web.api.receive(
        failure(queue="orders", exception_message="no stock"), failure(queue="payments")
    )

    assert titles(web.get("/groups", by="queue", text="NO STOCK")) == ["orders"]


def test_a_filter_that_matches_nothing_says_what_to_do(web: Web) -> None:
    web.api.receive(failure())

    assert "Clear it to see all groups" in web.get("/groups", text="unheard of")


def test_a_preview_counts_messages_and_destinations(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="orders"))

    html = web.get(f"/groups/{only_group(web)}/retry")

    assert "Retry 2 messages?" in html
    assert re.search(r"<b><bdi>orders</bdi></b></td><td class=\"num\">2<", html)


def test_a_preview_changes_nothing(web: Web) -> None:
    web.api.receive(failure())

    web.get(f"/groups/{only_group(web)}/retry")

    assert operations(web) == []


def test_a_preview_of_what_is_retried_already_says_what_is_left_out(web: Web) -> None:
    (one, _) = web.api.receive(failure(), failure())
    group = only_group(web)
    web.api.set_status(one, FailedMessageStatus.RETRY_ISSUED)

    html = web.get(f"/groups/{group}/retry")

    assert "Retry 1 message?" in html
    assert "Left out" in html


def test_a_retry_is_asked_for_with_who_and_why(web: Web) -> None:
    web.api.receive(failure(), failure())
    group = only_group(web)
    web.http.cookies.set("retrier_user", "ada")

    answer = web.post(f"/groups/{group}/retry", {**retry_form(web, group), "why": "fix is out"})

    assert answer.status_code == 303
    (asked,) = operations(web)
    assert (asked["total"], asked["why"]) == (2, "fix is out")
    assert str(asked["requested_by"]).startswith("ada (")


def test_a_form_that_is_sent_twice_asks_once(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    form = retry_form(web, group)

    web.post(f"/groups/{group}/retry", form)
    again = web.post(f"/groups/{group}/retry", form)

    assert again.status_code == 303
    assert len(operations(web)) == 1


def test_a_form_that_is_sent_again_with_other_values_is_refused(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    form = retry_form(web, group)

    web.post(f"/groups/{group}/retry", form)
    again = web.post(f"/groups/{group}/retry", {**form, "why": "another"})

    assert again.status_code == 422
    assert len(operations(web)) == 1


def test_a_form_without_a_key_asks_for_nothing(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)

    answer = web.post(f"/groups/{group}/retry", {})

    assert answer.status_code == 400
    assert operations(web) == []


def test_a_form_without_the_plan_of_its_preview_asks_for_nothing(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    form = retry_form(web, group)
    plans = ["", form["plan"][:-1], web.form("/retry", "/retry")["plan"]]

    answers = [web.post(f"/groups/{group}/retry", {**form, "plan": plan}) for plan in plans]

    assert {answer.status_code for answer in answers} == {409}
    assert operations(web) == []


def test_what_fails_after_the_preview_is_not_retried(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    form = retry_form(web, group)
    web.api.receive(failure())

    web.post(f"/groups/{group}/retry", form)

    (asked,) = operations(web)
    assert asked["total"] == 1


def test_a_rate_that_is_no_number_is_refused(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)

    answer = web.post(f"/groups/{group}/retry", {**retry_form(web, group), "rate": "fast"})

    assert answer.status_code == 400
    assert operations(web) == []


def test_after_the_request_the_page_tells_of_it(web: Web) -> None:
    web.api.receive(failure(), failure())
    group = only_group(web)

    answer = web.post(f"/groups/{group}/retry", retry_form(web, group))

    assert "Retry of 2 messages asked for." in follow(web, answer)


def test_a_group_that_is_being_retried_shows_how_far_it_is(web: Web) -> None:
    web.api.receive(failure(), failure())
    group = only_group(web)

    html = follow(web, web.post(f"/groups/{group}/retry", retry_form(web, group)))

    assert re.search(r'<progress value="0" max="2"', html)
    assert f"/groups/{group}/retry?" not in offered(html)


def test_a_group_is_archived_and_the_undo_is_offered(web: Web) -> None:
    web.api.receive(failure(), failure())
    group = only_group(web)

    html = follow(web, archive(web, group))

    assert "2 messages archived." in html
    assert 'data-live="tile/unresolved">0<' in web.get("/")


def test_an_archive_asks_first_how_many(web: Web) -> None:
    web.api.receive(failure(), failure())
    group = only_group(web)

    html = web.get(f"/groups/{group}/archive")

    assert "Archive 2 messages?" in html
    assert f'action="/groups/{group}/archive"' not in web.get("/groups")


def test_what_fails_after_the_question_is_not_archived(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    form = web.form(f"/groups/{group}/archive", f"/groups/{group}/archive")
    web.api.receive(failure())

    web.post(f"/groups/{group}/archive", form)

    assert 'data-live="tile/unresolved">1<' in web.get("/")


def test_the_row_of_a_group_that_was_archived_says_so(web: Web) -> None:
    web.api.receive(failure(), failure())

    archive(web, only_group(web))

    assert "2 messages archived" in web.get("/groups")


def test_an_archive_is_undone(web: Web) -> None:
    web.api.receive(failure(), failure())
    forms = forms_of(follow(web, archive(web, only_group(web))))
    (undo,) = [action for action in forms if action.endswith("/undo")]

    answer = web.post(undo, forms[undo])

    assert "2 messages unarchived." in follow(web, answer)
    assert 'data-live="tile/unresolved">2<' in web.get("/")


def test_an_unknown_group_is_404(web: Web) -> None:
    answer = web.http.get("/groups/00000000-0000-0000-0000-000000000000/retry")

    assert answer.status_code == 404
    assert "No group has the id" in answer.text


def test_a_form_leads_to_no_other_site(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    form = web.form(f"/groups/{group}/archive", f"/groups/{group}/archive")

    answer = web.post(f"/groups/{group}/archive", {**form, "next": "//evil.example/"})

    assert answer.headers["Location"].startswith("/groups?")


def archive(web: Web, group: str) -> httpx.Response:
    form = web.form(f"/groups/{group}/archive", f"/groups/{group}/archive")
    return web.post(f"/groups/{group}/archive", form)


def follow(web: Web, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["Location"])


def test_headers_that_are_named_are_dropped(web: Web) -> None:
    web.api.receive(failure())
    group = only_group(web)
    named = {"drop_headers": " x-trace, x-exception-*,"}

    web.post(f"/groups/{group}/retry", {**retry_form(web, group), **named})

    (asked,) = operations(web)
    assert asked["drop_headers"] == ["x-trace", "x-exception-*"]
    assert "x-trace, x-exception-*" in web.get(f"/operations/{asked['id']}")


@pytest.mark.parametrize("named", ["x-trace, Retrier.RetryId", "*", "x" * 1001])
def test_headers_that_cannot_be_dropped_are_refused(web: Web, named: str) -> None:
    web.api.receive(failure())
    group = only_group(web)

    answer = web.post(f"/groups/{group}/retry", {**retry_form(web, group), "drop_headers": named})

    assert answer.status_code == 400
    assert operations(web) == []


def test_the_dialog_of_a_retry_has_all_terms_that_the_command_line_has(web: Web) -> None:
    web.api.receive(*(failure(queue="orders") for _ in range(5)))
    group = only_group(web)
    terms = {"canary": "2", "canary_wait": "5m", "canary_limit": "1", "limit": "4", "rate": "7"}

    answer = web.post(
        f"/groups/{group}/retry",
        retry_form(web, group) | terms | {"in": "2h", "drop_headers": "x-trace*"},
    )

    assert answer.status_code == 303
    (asked,) = operations(web)
    shown = web.api.get(f"operations/{asked['id']}")
    assert {name: shown[name] for name in ("limit", "rate", "drop_headers")} == {
        "limit": 4,
        "rate": 7,
        "drop_headers": ["x-trace*"],
    }
    assert shown["canary"] == {
        "size": 2,
        "wait": 300.0,
        "limit": 1,
        "state": "sending",
        "sent": 0,
        "came_back": 0,
    }
    assert "not_before" in shown


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"canary": "0"}, "How many go first is a whole number from 1 to 1,000."),
        ({"limit": "all"}, "A limit is a whole number from 1 to 10,000,000."),
        ({"in": "soon"}, "The time before it begins"),
        ({"in": "900d"}, "The time before it begins is a year at most."),
        ({"canary_wait": "5m"}, "Say how many go first"),
        ({"destination": "x" * 300}, "Retries cannot be sent there"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused_and_nothing_is_asked_for(
    web: Web, terms: dict[str, str], words: str
) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="orders"))
    group = only_group(web)

    answer = web.post(f"/groups/{group}/retry", retry_form(web, group) | terms)

    assert answer.status_code == 400
    assert words in answer.text
    assert operations(web) == []


class TestWhileItIsRetried:
    def paused(self, web: Web, group: str, **terms: str) -> str:
        """Ask for a retry of the group and pause it; return the address of its operation."""
        web.post(f"/groups/{group}/retry", {**retry_form(web, group), **terms})
        (asked,) = operations(web)
        web.api.http.patch(f"/api/operations/{asked['id']}", json={"paused": True})
        return f"/operations/{asked['id']}"

    def test_its_row_leads_to_the_operation(self, web: Web) -> None:
        web.api.receive(failure())
        at = self.paused(web, only_group(web))

        assert f'href="{at}"' in web.get("/groups")

    def test_it_is_resumed_from_its_row_where_it_is_paused(self, web: Web) -> None:
        web.api.receive(failure())
        at = self.paused(web, only_group(web))

        answer = web.post(f"{at}/resume", web.form("/groups", f"{at}/resume"))

        assert answer.headers["Location"] == "/groups?done=resumed"
        assert 'paused" hidden>' in web.get("/groups")

    def test_all_of_it_is_taken_and_it_says_why_nothing_else_is_offered(self, web: Web) -> None:
        web.api.receive(failure(), failure())
        group = only_group(web)
        self.paused(web, group)

        html = web.get("/groups")

        assert "All of it is in that operation" in html
        assert f"/groups/{group}/retry?" not in offered(html)
        assert f"/groups/{group}/archive?" not in offered(html)

    def test_what_is_behind_a_limit_is_still_offered(self, web: Web) -> None:
        web.api.receive(failure(), failure(), failure())
        group = only_group(web)
        self.paused(web, group, limit="1")

        html = web.get("/groups")

        assert f"/groups/{group}/retry?" in html
        assert f"/groups/{group}/archive?" in html

    def test_what_failed_since_is_still_offered(self, web: Web) -> None:
        web.api.receive(failure())
        group = only_group(web)
        self.paused(web, group)
        web.api.receive(failure(time_of_failure=web.api.db.read(lambda tx: tx.now)))

        assert f"/groups/{group}/retry?" in web.get("/groups")


def test_the_queue_of_a_group_leads_to_its_messages(web: Web) -> None:
    web.api.receive(failure(queue="shop orders"))

    assert '<a href="/messages?queue=shop%20orders"><bdi>shop orders</bdi></a>' in web.get(
        "/groups"
    )


def test_a_queue_is_not_named_a_third_time(web: Web) -> None:
    said = "rejected by a consumer on orders"
    web.api.receive(
        failure(
            exception_type=None, exception_message=None, failure_reason="rejected", queue="orders"
        )
    )
    web.api.receive(
        failure(exception_type=None, exception_message=None, failure_reason=said, queue="orders")
    )

    html = web.get("/groups")

    assert f"<bdi>{said}: orders</bdi>" in html
    assert f'<div class="where"><bdi>{said}</bdi>' not in html


def test_a_title_without_a_stack_trace_leaves_the_word_to_its_message(web: Web) -> None:
    web.api.receive(
        failure(exception_type="SmtpError", exception_message="greylisted", stack_trace=None)
    )

    html = web.get("/groups")

    assert titles(html) == ["SmtpError"]
    assert "<bdi>greylisted</bdi>" in html
    assert "No stacktrace" not in html


def test_what_is_new_since_a_deploy_is_asked_for_by_its_time(web: Web) -> None:
    web.api.receive(failure(message_type="Shop.A"))

    html = web.get("/groups", by="type", since="2026-05-04T09:00:00")

    assert 'name="since" value="2026-05-04T09:00:00" data-utc' in html
    assert titles(html) == ["Shop.A"]
    assert titles(web.get("/groups", by="type", since="2999-05-04T09:00:00")) == []


def ids_asked_for(web: Web, path: str, ids: set[str]) -> set[str]:
    """Return which of these groups the database is asked about for a page."""
    web.get(path)
    asked: list[str] = []

    def note(
        _conn: object, _cursor: object, _statement: str, parameters: object, *_: object
    ) -> None:
        asked.append(str(parameters))

    event.listen(web.api.db.engine, "before_cursor_execute", note)
    try:
        web.get(path)
    finally:
        event.remove(web.api.db.engine, "before_cursor_execute", note)
    return {each for each in ids if any(each in parameters for parameters in asked)}


def test_the_database_is_asked_only_about_the_groups_that_are_shown(web: Web) -> None:
    web.api.receive(*(failure(exception_type=f"Gen.Made{number}") for number in range(60)))
    ids = {*ids_of(web.get("/groups")), *ids_of(web.get("/groups", page="2"))}
    assert len(ids) == 60

    assert len(ids_asked_for(web, "/", ids)) == 10
    assert len(ids_asked_for(web, "/groups?page=2", ids)) == 10


def test_a_group_that_is_being_retried_stands_where_its_request_is_the_newest(web: Web) -> None:
    (one,) = web.api.receive(failure(exception_type="Shop.Emptied"))
    web.api.receive(failure(exception_type="Shop.Failing"))
    (group,) = [
        each for each in ids_of(web.get("/groups")) if one in web.get("/messages", group=each)
    ]
    web.post(f"/groups/{group}/retry", retry_form(web, group))
    web.api.set_status(one, FailedMessageStatus.RETRY_ISSUED)
    web.counts.note_change()

    assert [each.split(":")[0] for each in titles(web.get("/groups"))] == [
        "Shop.Emptied",
        "Shop.Failing",
    ]
    assert [each.split(":")[0] for each in titles(web.get("/"))] == ["Shop.Failing", "Shop.Emptied"]


def test_it_is_told_that_generated_names_make_a_group_of_each_message(web: Web) -> None:
    web.api.receive(
        *(failure(exception_type=f"Gen.Made`{number}") for number in range(MANY_GROUPS))
    )

    html = web.get("/groups")

    assert "1,000 of 1,000 groups have one message each" in html
    assert "“Gen.Made`*: Shop.Stock.Take(String item)”" in unescape(html)
    assert "one message each" not in web.get("/groups", by="queue")


def test_fewer_groups_of_one_message_are_no_matter(web: Web) -> None:
    web.api.receive(*(failure(exception_type=f"Gen.Made`{number}") for number in range(20)))

    assert "one message each" not in web.get("/groups")
