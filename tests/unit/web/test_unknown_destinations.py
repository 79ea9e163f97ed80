"""Messages whose queue nothing names: each face says it, and how they can go."""

from typing import Any

from tests.support.factories import failure
from tests.support.web import Web


def nowhere(web: Web) -> str:
    (key,) = web.api.receive(failure(queue="failed", destination=""))
    return key


def ask(web: Web, path: str, content: object) -> Any:
    return web.api.http.post(f"/api/{path}", json=content).json()


def test_the_page_of_a_message_says_it_with_its_ways_out(web: Web) -> None:
    html = web.get(f"/messages/{nowhere(web)}")

    assert "Goes back to" in html
    assert "not known: nothing says where it failed" in html
    assert 'href="/redirects"' in html


def test_the_question_before_a_retry_says_that_they_are_not_sent(web: Web) -> None:
    nowhere(web)

    html = web.get("/retry")

    assert "not sent, unless you name a queue below" in html
    assert "No destination is known of 1 message" in html


def test_the_preview_of_the_api_warns(web: Web) -> None:
    nowhere(web)

    found = ask(web, "operations/preview", {"selection": {"all": True}})

    assert [each["kind"] for each in found["warnings"]] == ["destination_unknown"]
    assert found["destinations"]["lines"] == [{"name": "", "count": 1}]


def test_the_preview_does_not_warn_where_a_queue_is_named(web: Web) -> None:
    nowhere(web)

    wanted = {"selection": {"all": True}, "destination": "orders"}

    assert ask(web, "operations/preview", wanted)["warnings"] == []


def test_a_redirect_from_the_error_queue_is_a_destination(web: Web) -> None:
    nowhere(web)
    web.api.http.post(
        "/api/redirects", json={"fromphysicaladdress": "failed", "tophysicaladdress": "orders"}
    )

    found = ask(web, "operations/preview", {"selection": {"all": True}})

    assert [each["kind"] for each in found["warnings"]] == ["redirect"]
    assert found["destinations"]["lines"] == [{"name": "orders", "count": 1}]
