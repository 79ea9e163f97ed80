"""The search box: straight to the one thing that is meant, else to messages with that text."""

import pytest

from tests.support.bench import Bench
from tests.support.factories import failed_import, failure
from tests.support.web import Web


def place(web: Web, wanted: str) -> str:
    answer = web.http.get("/search", params={"q": wanted})
    assert answer.status_code == 303
    return str(answer.headers["Location"])


@pytest.mark.parametrize("digits", [8, 13, 36])
def test_the_id_of_a_message_or_its_beginning_opens_it(web: Web, digits: int) -> None:
    (one, _) = web.api.receive(failure(), failure())

    assert place(web, f" {one[:digits].upper()} ") == f"/messages/{one}"


def test_the_id_from_its_sender_opens_a_message(web: Web) -> None:
    (one, _) = web.api.receive(failure(message_id="order-4711"), failure(message_id="order-4712"))

    assert place(web, "order-4711") == f"/messages/{one}"


def test_an_id_of_an_operation_opens_it(web: Web) -> None:
    bench = Bench(web.api.db)
    bench.fail(1)
    operation = bench.ask_all().operation_id

    assert place(web, operation[:8]) == f"/operations/{operation}"


def test_the_id_of_a_group_and_its_title_open_its_messages(web: Web) -> None:
    web.api.receive(failure())
    (group,) = web.api.get("recoverability/groups")

    assert place(web, group["id"][:8]) == f"/messages?group={group['id']}"
    assert place(web, group["title"]) == f"/messages?group={group['id']}"


def test_the_id_of_a_failed_import_opens_it(web: Web) -> None:
    web.api.receive(failed_import())
    (one,) = web.api.get("imports")

    assert place(web, one["id"][:8]) == f"/imports/{one['id']}"


def test_the_name_of_a_queue_or_a_type_opens_its_messages(web: Web) -> None:
    web.api.receive(failure(queue="shop orders", message_type="Shop.Order"))

    assert place(web, "shop orders") == "/messages?queue=shop+orders"
    assert place(web, "Shop.Order") == "/messages?message_type=Shop.Order"


@pytest.mark.parametrize("wanted", ["no stock & more", "deadbeef", "1234567"])
def test_any_other_text_is_looked_for_in_the_messages(web: Web, wanted: str) -> None:
    web.api.receive(failure())

    assert place(web, wanted).startswith("/messages?text=")


def test_two_messages_with_one_sender_id_are_a_list(web: Web) -> None:
    web.api.receive(failure(message_id="1", endpoint="a"), failure(message_id="1", endpoint="b"))

    assert place(web, "1") == "/messages?text=1"


def test_nothing_at_all_leads_to_all_messages(web: Web) -> None:
    assert place(web, " ") == "/messages"


def test_a_text_that_no_message_can_have_is_told_and_not_an_error(web: Web) -> None:
    assert web.http.get("/search", params={"q": "a\0b"}).status_code == 400


def test_every_page_has_the_box(web: Web) -> None:
    for path in ("/", "/groups", "/name"):
        assert 'action="/search"' in web.get(path)
