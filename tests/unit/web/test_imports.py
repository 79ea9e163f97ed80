"""Failed imports on the page: listed, shown harmlessly, read again, sent, deleted."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from retrier.domain.failed_imports import ON_ITS_WAY
from retrier.ingestion.parsing import QueueMapping
from retrier.store.import_acts import stamp_import
from retrier.store.schema import failed_import_sends
from retrier.web.imports import MOST_AT_ONCE
from tests.support.amqp_bytes import header, properties, string
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE, FAILED_AT, failed_import, failure
from tests.support.raw_messages import raw_properties as encoded
from tests.support.web import Web

WITH_DESTINATION = QueueMapping(queue=ERROR_QUEUE, destination="orders")
POISON = properties(headers=[header("Shop.Tenant", string("north")), b"\x03badZ\x00"])


@pytest.fixture(autouse=True)
def queues(web: Web) -> None:
    for queue in ("orders", ERROR_QUEUE, STAGING):
        web.api.transport.broker.declare(queue)


def keep(web: Web, **changes: Any) -> str:
    before = set(web.api.ids("imports"))
    web.api.receive(failed_import(**changes))
    (found,) = set(web.api.ids("imports")) - before
    return found


def ask(web: Web, act: str, **choice: str) -> str:
    return web.get("/imports/selected", act=act, **choice)


def do(web: Web, act: str, choice: dict[str, str], **more: str) -> httpx.Response:
    form = web.form(
        f"/imports/selected?{httpx.QueryParams({'act': act, **choice})}", f"/imports/selected/{act}"
    )
    unticked = {name: form[name] for name in form.keys() - {"in_doubt", "confirmation"}}
    return web.post(f"/imports/selected/{act}", {**unticked, **more})


def bodies(web: Web, queue: str = "orders") -> list[bytes]:
    return [each.body for each in web.api.transport.broker.holds(queue)]


def in_doubt(web: Web, import_id: str) -> None:
    stamp_import(web.api.db, import_id, "orders", again=False, who="ada")
    with web.api.db.engine.begin() as conn:
        since = conn.execute(select(failed_import_sends.c.sending_since)).scalar_one()
        conn.execute(update(failed_import_sends).values(sending_since=since - ON_ITS_WAY))


class TestTheList:
    def test_is_empty_and_says_what_to_do(self, web: Web) -> None:
        assert "Every message could be read." in web.get("/imports")

    def test_shows_the_reason_first(self, web: Web) -> None:
        import_id = keep(web, reason="it has no queue")

        html = web.get("/imports")

        assert f'href="/imports/{import_id}"><bdi>It has no queue.</bdi>' in html

    def test_can_be_of_one_error_queue(self, web: Web) -> None:
        keep(web, error_queue="a", reason="of a")
        keep(web, error_queue="b", reason="of b")

        html = web.get("/imports", error_queue="b")

        assert "Of b." in html
        assert "Of a." not in html

    def test_comes_in_pages(self, web: Web) -> None:
        web.api.receive(*(failed_import(body=str(each).encode()) for each in range(51)))

        assert "51 of 51 failed imports" in web.get("/imports", page="2")

    def test_tells_what_is_in_doubt(self, web: Web) -> None:
        in_doubt(web, keep(web))

        assert "in doubt" in web.get("/imports")

    def test_is_led_to_by_the_overview(self, web: Web) -> None:
        keep(web)

        assert "1 message could not be read" in web.get("/")


class TestOneImport:
    def test_shows_headers_properties_and_body(self, web: Web) -> None:
        raw = encoded({"Shop.Tenant": "north", "n": 7}, message_id="9")
        import_id = keep(web, raw=raw, body=b'{"order": 7}')

        html = web.get(f"/imports/{import_id}")

        assert "Shop.<wbr>Tenant" in html
        assert "north" in html
        assert "&#34;order&#34;: 7" in html

    def test_shows_what_comes_before_the_fault_and_the_bytes(self, web: Web) -> None:
        import_id = keep(web, raw=POISON)

        html = web.get(f"/imports/{import_id}")

        assert "no field type &#39;Z&#39;" in html
        assert "Shop.<wbr>Tenant" in html
        assert "00000000  " in html

    def test_shows_hostile_headers_and_bodies_harmlessly(self, web: Web) -> None:
        raw = encoded({"<script>alert(1)</script>": "\u202egnp.exe", "b": "<img src=x onerror=1>"})
        import_id = keep(
            web, raw=raw, body=b"<script>alert(2)</script>", reason="<script>alert(3)</script>"
        )

        html = web.get(f"/imports/{import_id}") + web.get("/imports")

        assert "<script>alert" not in html
        assert "<img" not in html
        assert "\u202e" not in html

    def test_shows_the_beginning_of_a_large_body_and_gives_all_as_a_file(self, web: Web) -> None:
        import_id = keep(web, body=b"x" * 5_000_000)

        html = web.get(f"/imports/{import_id}")
        file = web.http.get(f"/imports/{import_id}/body")

        assert "These are the first 16.0 KiB of 4.8 MiB." in html
        assert len(html) < 100_000
        assert len(file.content) == 5_000_000
        assert file.headers["Content-Disposition"].startswith("attachment")
        assert "sandbox" in file.headers["Content-Security-Policy"]

    @pytest.mark.parametrize("body", [b"\xff\x00" * 50, b"", "größe".encode("utf-16")])
    def test_shows_any_bytes(self, web: Web, body: bytes) -> None:
        assert "Body" in web.get(f"/imports/{keep(web, body=body)}")

    def test_that_is_gone_tells_what_became_of_it(self, web: Web) -> None:
        import_id = keep(web)
        do(web, "delete", {"id": import_id})

        answer = web.http.get(f"/imports/{import_id}")

        assert answer.status_code == 404
        assert "was deleted" in answer.text

    def test_may_be_unknown(self, web: Web) -> None:
        assert web.http.get("/imports/no-id").status_code == 404
        assert web.http.get("/imports/no-id/body").status_code == 404


class TestReadingAgain:
    def test_makes_a_failed_message_with_the_settings_of_today(self, web: Web) -> None:
        import_id = keep(web)
        web.api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        answer = do(web, "again", {"id": import_id})

        (message,) = web.api.ids()
        assert "1 of 1 failed import could be read" in answer.text
        assert f'href="/messages/{message}"' in answer.text
        assert web.api.get("imports") == []

    def test_says_why_one_stays(self, web: Web) -> None:
        answer = do(web, "again", {"id": keep(web)})

        assert "0 of 1 failed import could be read" in answer.text
        assert "Left as they were" in answer.text

    def test_can_be_given_a_destination(self, web: Web) -> None:
        do(web, "again", {"id": keep(web)}, destination="orders")

        assert [each["queue_address"] for each in web.api.get("errors")] == ["orders"]

    def test_is_given_no_destination_that_takes_no_retry(self, web: Web) -> None:
        import_id = keep(web)

        answer = do(web, "again", {"id": import_id}, destination=STAGING)

        assert answer.status_code == 400
        assert web.api.ids("imports") == [import_id]

    def test_takes_all_that_match(self, web: Web) -> None:
        for body in (b"1", b"2"):
            keep(web, body=body)
        other = keep(web, error_queue="other")
        web.api.mappings[ERROR_QUEUE] = WITH_DESTINATION

        answer = do(web, "again", {"all": "1", "error_queue": ERROR_QUEUE})

        assert "2 of 2 failed imports could be read" in answer.text
        assert web.api.ids("imports") == [other]

    def test_leaves_what_may_have_been_sent(self, web: Web) -> None:
        import_id = keep(web)
        in_doubt(web, import_id)

        question = ask(web, "again", id=import_id)
        answer = do(web, "again", {"id": import_id})

        assert "1 of them may have been sent" in question
        assert "0 of 1" in answer.text
        assert web.api.ids("imports") == [import_id]


class TestSending:
    def test_sends_as_it_came_to_the_queue(self, web: Web) -> None:
        import_id = keep(web, body=b"order 7")

        answer = do(web, "send", {"id": import_id}, to="orders")

        assert "1 of 1 failed import is sent to orders" in answer.text
        assert bodies(web) == [b"order 7"]
        assert web.api.get("imports") == []

    def test_sends_once_if_the_form_comes_twice(self, web: Web) -> None:
        choice = {"id": keep(web, body=b"order 7")}
        form = web.form(
            f"/imports/selected?{httpx.QueryParams({'act': 'send', **choice})}",
            "/imports/selected/send",
        )

        web.post("/imports/selected/send", {**form, "to": "orders"})
        again = web.post("/imports/selected/send", {**form, "to": "orders"})

        assert "0 of 1 failed import are sent" in again.text
        assert bodies(web) == [b"order 7"]

    def test_sends_all_that_match_in_the_order_in_which_they_came(self, web: Web) -> None:
        for minute in (2, 0, 1):
            at = FAILED_AT + timedelta(minutes=minute)
            keep(web, body=str(minute).encode(), received_at=at)

        do(web, "send", {"all": "1"}, to="orders")

        assert bodies(web) == [b"0", b"1", b"2"]

    def test_needs_a_queue(self, web: Web) -> None:
        import_id = keep(web)

        answer = do(web, "send", {"id": import_id}, to=" ")

        assert answer.status_code == 400
        assert web.api.ids("imports") == [import_id]

    def test_tells_that_a_queue_does_not_exist(self, web: Web) -> None:
        answer = do(web, "send", {"id": keep(web)}, to="nowhere")

        assert "0 of 1" in answer.text
        assert "it was not sent" in answer.text

    def test_sends_nothing_to_our_own_queues(self, web: Web) -> None:
        answer = do(web, "send", {"id": keep(web)}, to=STAGING)

        assert "nothing can be sent there" in answer.text
        assert bodies(web, STAGING) == []

    def test_leaves_the_rest_when_the_broker_is_away(self, web: Web) -> None:
        keep(web)
        keep(web, body=b"2")
        web.api.transport.go_down("no route")

        answer = do(web, "send", {"all": "1"}, to="orders")

        assert "0 of 2 failed imports are sent" in answer.text
        assert "the broker is away: no route" in answer.text
        assert len(web.api.ids("imports")) == 2

    def test_sends_what_is_in_doubt_only_if_asked(self, web: Web) -> None:
        import_id = keep(web)
        in_doubt(web, import_id)

        no = do(web, "send", {"id": import_id}, to="orders")
        yes = do(web, "send", {"id": import_id}, to="orders", in_doubt="1")

        assert "0 of 1" in no.text
        assert "1 of 1" in yes.text

    def test_takes_so_many_at_once_and_says_so(self, web: Web) -> None:
        many = MOST_AT_ONCE + 1
        web.api.receive(*(failed_import(body=str(each).encode()) for each in range(many)))

        question = ask(web, "delete", all="1")
        answer = do(web, "delete", {"all": "1"})

        assert f"Delete {MOST_AT_ONCE} failed imports for good?" in question
        assert "1 more match" in answer.text
        assert len(web.api.ids("imports")) == 1


class TestDeleting:
    def test_asks_first_and_changes_nothing_by_that(self, web: Web) -> None:
        import_id = keep(web)

        html = ask(web, "delete", id=import_id)

        assert "Delete 1 failed import for good?" in html
        assert web.api.ids("imports") == [import_id]

    def test_deletes_what_was_picked(self, web: Web) -> None:
        one, other = keep(web, body=b"1"), keep(web, body=b"2")

        do(web, "delete", {"id": one})

        assert web.api.ids("imports") == [other]

    def test_of_nothing_goes_back_to_the_list(self, web: Web) -> None:
        answer = web.http.get("/imports/selected", params={"act": "delete"})

        assert answer.headers["Location"] == "/imports?done=nothing"

    def test_of_what_is_no_act_is_refused(self, web: Web) -> None:
        assert web.http.get("/imports/selected", params={"act": "fly"}).status_code == 400


def test_a_failed_import_waits_behind_the_list(web: Web) -> None:
    keep(web)
    web.api.receive(failure())

    assert 'data-news-since="1" data-news-value="imports"' in web.get("/imports")
