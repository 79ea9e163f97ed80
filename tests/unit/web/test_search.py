"""The search box: straight to the one thing that is meant, else to messages with that text."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.bench import Bench
from tests.support.factories import failed_import, failure
from tests.support.fields import declare
from tests.support.web import Web, forms_of
from tests.support.words import fill


@pytest.fixture
def searching(database: Database) -> Iterator[Web]:
    """Give the page of a service that searches full text and declares a field."""
    api = Api(database, fields=declare(order="/order"), full_text=True)
    made = Web(api)
    yield made
    made.close()
    api.http.close()


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
def test_any_other_text_is_looked_for_in_all_messages(web: Web, wanted: str) -> None:
    web.api.receive(failure(exception_message=f"{wanted}: it is"))

    assert place(web, wanted) == f"/messages?{urlencode({'text': wanted, 'status': 'all'})}"


def test_a_text_that_nothing_has_is_told(web: Web) -> None:
    web.api.receive(failure())

    html = web.get("/search", q="<nothing> like this")

    assert "Nothing is found." in html
    assert "&lt;nothing&gt; like this" in html
    assert "search.text.enabled" in html


def test_a_name_that_no_field_has_is_told(web: Web) -> None:
    assert "No field is called nofield" in web.get("/search", q="nofield=4711")


def test_two_messages_with_one_sender_id_are_shown(web: Web) -> None:
    ids = web.api.receive(
        failure(message_id="1", endpoint="a"), failure(message_id="1", endpoint="b")
    )

    html = web.get("/search", q="1")

    assert [f'href="/messages/{each}"' in html for each in ids] == [True, True]


def test_several_ways_are_shown_with_their_counts(searching: Web) -> None:
    searching.api.receive(
        failure(body=b"A-4711", fields={"order": "A-4711"}), failure(body=b"A-4711")
    )
    fill(searching.api.db)

    html = searching.get("/search", q="A-4711")

    assert [each for each in WAYS if each in html] == list(WAYS)
    assert re.findall(r'data-label="Messages">(\d+)<', html) == ["1", "2"]


WAYS = (
    'href="/messages?field.order=A-4711&amp;status=all"',
    'href="/messages?words=A-4711&amp;status=all"',
)


def test_words_alone_lead_to_the_list(searching: Web) -> None:
    searching.api.receive(failure(body=b"it is late"))
    fill(searching.api.db)

    assert place(searching, "is late") == "/messages?words=is+late&status=all"
    assert "is late" in searching.get("/messages", words="is late", status="all")


def test_a_field_leads_to_the_list(searching: Web) -> None:
    searching.api.receive(failure(fields={"order": "4711"}))

    assert place(searching, "order=4711") == "/messages?field.order=4711&status=all"


def test_what_is_still_unread_is_told(searching: Web) -> None:
    searching.api.receive(failure())
    fill(searching.api.db)
    searching.api.receive(failure())

    assert "The words of 1 message are still to be read." in searching.get("/search", q="naught")


def test_all_that_match_are_retried_and_no_others(searching: Web) -> None:
    one, _ = searching.api.receive(failure(body=b"late"), failure(body=b"early"))
    fill(searching.api.db)
    chosen = {"act": "retry", "all": "1", "words": "late"}
    form = forms_of(searching.get("/messages/selected", **chosen))["/messages/retry"]

    answer = searching.http.post("/messages/retry", data=form)

    assert answer.status_code == 303
    (operation,) = searching.api.get("operations")
    told = "retry of words (its value is not told here)"
    assert (operation["total"], operation["originator"]) == (1, told)
    assert one


def test_what_can_be_looked_for_is_suggested(searching: Web) -> None:
    searching.api.receive(failure(queue="<orders>"))

    html = searching.get("/search/suggestions")

    for each in ("order=", "&lt;orders&gt;", "Shop.PlaceOrder"):
        assert f'<option value="{each}">' in html


def test_nothing_at_all_leads_to_all_messages(web: Web) -> None:
    assert place(web, " ") == "/messages"


def test_a_text_that_no_message_can_have_is_told_and_not_an_error(web: Web) -> None:
    assert web.http.get("/search", params={"q": "a\0b"}).status_code == 400


def test_every_page_has_the_box(web: Web) -> None:
    for path in ("/", "/groups", "/name"):
        assert 'action="/search"' in web.get(path)
