"""The page of one message: why it is in its state, what is shown of it, and what is done with it."""

import re
from collections.abc import Mapping
from datetime import timedelta
from html import unescape
from random import Random

import httpx
import pytest

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.streams import read_position
from tests.contract.store_rows import again
from tests.support.bench import QUEUE, Bench
from tests.support.disposing import DUE, make_dead, schedule
from tests.support.factories import FAILED_AT, confirmation, failed_import, failure
from tests.support.processor_time import can_take
from tests.support.streams import fail_in_stream
from tests.support.web import Web, forms_of

NOBODY = "b0f4cb64-9b3e-4a4b-9a11-0d1b6a3d2f6e"
STATE = re.compile(r'<p class="lead">(.*?)</p>', re.DOTALL)
TAGS = re.compile(r"<[^>]+>")


def state_of(html: str) -> str:
    """Return the sentence that says why the message is in its state, with its badge."""
    found = STATE.search(html)
    assert found is not None
    return " ".join(unescape(TAGS.sub("", found[1])).split())


def page(web: Web, key: str, **query: str) -> str:
    return web.get(f"/messages/{key}", **query)


def press(web: Web, key: str, act: str, **more: str) -> httpx.Response:
    """Press a button of the page that acts at once."""
    to = f"/messages/{key}/{act}"
    return web.post(to, {**forms_of(page(web, key))[to], **more})


def answer(web: Web, key: str, act: str, **more: str) -> httpx.Response:
    """Answer the question that comes before an act."""
    to = f"/messages/{key}/{act}"
    return web.post(to, {**web.form(to, to), **more})


def follow(web: Web, sent: httpx.Response) -> str:
    assert sent.status_code == 303, sent.text
    return web.get(sent.headers["Location"])


def message(web: Web, key: str) -> Mapping[str, object]:
    found: Mapping[str, object] = web.api.get(f"errors/{key}")
    return found


def operations(web: Web) -> list[dict[str, object]]:
    found: list[dict[str, object]] = web.api.get("operations")
    return found


def receive(web: Web, **changes: object) -> str:
    (key,) = web.api.receive(failure(**changes))
    return key


def send(web: Web) -> tuple[Bench, str]:
    """Let one message have failed, and its retry have been sent."""
    bench = Bench(web.api.db)
    (key,) = bench.fail()
    bench.ask([key])
    bench.work()
    return bench, key


class TestItsState:
    def test_is_that_it_waits_for_a_person(self, web: Web) -> None:
        html = page(web, receive(web))

        assert state_of(html) == (
            "unresolved It failed once, last at 2026-05-04 12:00:00 UTC. It waits for a person."
        )

    def test_is_when_it_is_tried_again_and_by_which_rule(self, web: Web) -> None:
        key = receive(web)
        schedule(web.api.db, key)

        assert state_of(page(web, key)) == (
            f"scheduled It will be tried again at {DUE:%Y-%m-%d %H:%M:%S} UTC: "
            "Failed 1 of 3 times, by rule payments."
        )

    def test_is_that_it_is_dead_since_when_and_why(self, web: Web) -> None:
        key = receive(web)
        make_dead(web.api.db, key)

        told = state_of(page(web, key))

        assert re.match(r"dead Dead since [\d: -]+ UTC: Failed 3 of 3 times, by rule", told)
        assert told.endswith("Only a person's retry takes it.")

    def test_is_that_it_is_dead_and_has_failed_again(self, web: Web) -> None:
        first = failure()
        (key,) = web.api.receive(first)
        make_dead(web.api.db, key)

        web.api.receive(again(first))

        html = page(web, key)
        assert state_of(html) == (
            "dead Dead: Failed 3 of 3 times, by rule payments; it has failed again since then. "
            "Only a person's retry takes it."
        )
        assert "not judged: failed 3 of 3 times, by rule payments" in html

    def test_is_that_a_person_had_archived_it_and_it_failed_again(self, web: Web) -> None:
        first = failure()
        (key,) = web.api.receive(first)
        press(web, key, "archive")

        web.api.receive(again(first))

        assert state_of(page(web, key)).endswith(
            "A person had archived it, and it failed again, so a person decides. "
            "It waits for a person."
        )

    def test_is_that_its_retry_was_sent_and_has_no_outcome(self, web: Web) -> None:
        _, key = send(web)

        told = state_of(page(web, key))

        assert re.match(rf"being retried Its retry was sent to {QUEUE} at [\d: -]+ UTC and", told)
        assert told.endswith("neither succeeded nor failed yet.")

    def test_is_that_a_retry_has_claimed_it(self, web: Web) -> None:
        key = receive(web)
        web.api.set_status(key, FailedMessageStatus.RETRY_ISSUED)

        assert "Its retry was issued, and is about to be sent." in state_of(page(web, key))

    def test_is_that_a_consumer_confirmed_it(self, web: Web) -> None:
        bench, key = send(web)
        bench.receive(confirmation(key))

        assert "resolved It is resolved: a consumer confirmed at" in state_of(page(web, key))

    def test_is_that_it_was_archived(self, web: Web) -> None:
        key = receive(web)
        press(web, key, "archive")

        assert state_of(page(web, key)).startswith("archived It was archived at")


class TestWhatItShows:
    def test_is_the_exception_with_its_trace(self, web: Web) -> None:
        html = page(web, receive(web, exception_message="nothing left"))

        assert "<h1><bdi>Shop.OutOfStock: nothing left</bdi></h1>" in html
        assert "at Shop.Stock.Take(String item)" in html

    def test_is_on_which_machine_each_attempt_was(self, web: Web) -> None:
        first = failure(host="box-1", headers={})
        (key,) = web.api.receive(first)
        web.api.receive(
            failure(host="box-2", headers={}, message_id=first.message_id, body=first.body)
        )

        html = page(web, key)

        assert re.findall(r'class="where">on <bdi>([^<]+)', html) == ["box-2", "box-1"]

    def test_is_what_changed_between_two_attempts(self, web: Web) -> None:
        first = failure(exception_message="no gift wrap", queue="orders")
        later = again(first, exception_message="card refused", queue="orders")
        key, _ = web.api.receive(first, later)

        html = page(web, key)

        assert "What changed between attempt 1 and 2" in html
        assert "<del><bdi>no gift wrap</bdi></del>" in html
        assert "<ins><bdi>card refused</bdi></ins>" in html
        assert re.search(
            r'Queue</th><td colspan="2" class="soft"><bdi>orders</bdi> \(the same', html
        )

    def test_is_any_attempt_beside_the_one_before(self, web: Web) -> None:
        first = failure(exception_message="one")
        more = [again(first, exception_message=text) for text in ("two", "three")]
        key, *_ = web.api.receive(first, *more)

        html = page(web, key, compare="2")

        assert "What changed between attempt 1 and 2" in html
        assert "<ins><bdi>two</bdi></ins>" in html

    def test_is_every_header(self, web: Web) -> None:
        html = page(web, receive(web, headers={"Shop.Tenant": "north"}))

        assert re.search(r"Shop\.<wbr>Tenant</bdi></th><td[^>]*>north</td>", html)

    def test_is_the_body_set_in_lines(self, web: Web) -> None:
        html = page(web, receive(web, body=b'{"number":293}'))

        assert "{\n  &#34;number&#34;: 293\n}" in html

    def test_is_the_body_as_it_came_where_asked_for(self, web: Web) -> None:
        key = receive(web, body=b'{"number":293}')

        assert "{&#34;number&#34;:293}" in page(web, key, body="text")
        assert "7b 22 6e 75" in page(web, key, body="hex")

    def test_says_when_it_failed_where_it_was_taken_off_later(self, web: Web) -> None:
        key = receive(
            web,
            time_of_failure=FAILED_AT,
            received_at=FAILED_AT + timedelta(minutes=3),
        )

        story = page(web, key).split('<ol class="story">')[1]

        assert "and was taken off the error queue then" in story
        assert f'datetime="{FAILED_AT:%Y-%m-%dT%H:%M:%S}.000Z"' in story

    def test_is_its_story_the_newest_first_with_who_and_why(self, web: Web) -> None:
        key = receive(web)
        web.http.cookies.set("retrier_user", "ada")
        press(web, key, "archive")
        press(web, key, "unarchive")

        story = page(web, key).split('<ol class="story">')[1]

        assert story.index("unarchived: unresolved again") < story.index("It failed on orders")
        assert "by <bdi>ada (" in story

    def test_is_its_stream(self, web: Web) -> None:
        html = page(web, receive(web, stream_id="customer-7"))

        assert re.search(r"Stream</th><td><a [^>]*><bdi>customer-7<", html)

    def test_is_where_it_failed(self, web: Web) -> None:
        place = {"host": "box & 1", "process": "4711", "node": "w1@box"}
        html = page(web, receive(web, **place))

        assert 'href="/messages?host=box%20%26%201"><bdi>box &amp; 1<' in html
        assert 'href="/messages?host=box%20%26%201&amp;process=4711"' in html
        assert 'href="/messages?node=w1%40box"' in html

    def test_leads_to_all_like_it(self, web: Web) -> None:
        html = page(web, receive(web, queue="orders & co"))

        assert 'href="/messages?queue=orders%20%26%20co"' in html
        assert re.search(r'href="/messages\?group=[0-9a-f-]{36}"', html)

    def test_may_be_asked_for_in_capitals(self, web: Web) -> None:
        assert "nothing left" in page(web, receive(web).upper())

    def test_is_a_page_of_its_own_if_there_is_no_such_message(self, web: Web) -> None:
        for key in (NOBODY, "no-id", "%00"):
            found = web.http.get(f"/messages/{key}")
            assert found.status_code in {404, 400}
        assert "No failed message has the id" in web.http.get(f"/messages/{NOBODY}").text
        assert "There is nothing here" in web.http.get(f"/messages/{NOBODY}").text

    def test_is_where_to_look_if_the_id_is_that_of_a_failed_import(self, web: Web) -> None:
        web.api.receive(failed_import())
        (found,) = web.api.get("imports")

        told = web.http.get(f"/messages/{found['id']}").text

        assert "It is that of a failed import" in told


HOSTILE = "<script>alert(1)</script>\u202egnp.exe\0"


class TestHostileContent:
    def test_is_shown_and_not_run(self, web: Web) -> None:
        key = receive(
            web,
            headers={HOSTILE.replace("\0", ""): HOSTILE.replace("\0", "")},
            body=HOSTILE.encode(),
            exception_message=HOSTILE,
            exception_type=HOSTILE.replace("\0", ""),
            stack_trace=HOSTILE,
            content_type="text/html",
        )

        html = page(web, key)

        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert "\0" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩gnp.exe" in html
        assert "⟨U+0000⟩" in html

    def test_is_downloaded_as_a_file_that_no_browser_runs(self, web: Web) -> None:
        key = receive(web, body=HOSTILE.encode(), content_type="text/html")

        found = web.http.get(f"/messages/{key}/body")

        assert found.content == HOSTILE.encode()
        assert found.headers["Content-Type"] == "application/octet-stream"
        assert found.headers["Content-Disposition"] == f'attachment; filename="{key}.txt"'
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in found.headers["Content-Security-Policy"]

    def test_of_five_megabytes_costs_no_second(self, web: Web) -> None:
        key = receive(web, body=b"<script>" * (5 << 17))

        html = page(web, key)

        assert can_take(1, lambda: page(web, key))
        assert "These are the first 64.0 KiB of 5.0 MiB." in html
        assert len(html) < 500_000

    def test_that_is_binary_is_shown_by_its_digits(self, web: Web) -> None:
        assert "00000000  00 01 fe ff" in page(web, receive(web, body=b"\x00\x01\xfe\xff" * 9))

    def test_that_is_binary_and_large_is_shown_part_by_part(self, web: Web) -> None:
        body = bytes(range(256)) * 400
        key = receive(web, body=body)
        html, seen = page(web, key), ""

        while following := re.search(r'hx-get="([^"]+/bytes[^"]+)"', html):
            seen += html
            html = web.get(unescape(following[1]))

        shown = re.findall(r"^(?:<pre[^>]*>)?([0-9a-f]{8})  ", seen + html, re.MULTILINE)
        assert shown == [f"{start:08x}" for start in range(0, 64 * 1024, 16)]
        assert "These were the first 64.0 KiB of 100.0 KiB. The download has all of it." in html

    def test_of_bytes_that_do_not_compress_fits_a_page(self, web: Web) -> None:
        key = receive(web, body=Random(7).randbytes(100_000))  # noqa: S311 - the same in each run

        for path in (f"/messages/{key}", f"/messages/{key}/bytes"):
            with web.http.stream("GET", path) as answer:
                assert len(b"".join(answer.iter_raw())) < 100_000

    def test_has_no_bytes_where_an_address_says_nonsense(self, web: Web) -> None:
        key = receive(web, body=b"\0" * 20_000)

        assert "00002000  00" in web.get(f"/messages/{key}/bytes", first="-1")
        assert "No such bytes" in web.get(f"/messages/{key}/bytes", first="999999")

    def test_of_many_long_headers_is_cut_and_said(self, web: Web) -> None:
        headers = {f"X-{number}": "y" * 5000 for number in range(20)}

        html = page(web, receive(web, headers=headers))

        assert "… and 1,000 characters more" in html


class TestRetry:
    def test_is_asked_for_at_once(self, web: Web) -> None:
        key = receive(web)

        html = follow(web, press(web, key, "retry"))

        (asked,) = operations(web)
        assert (asked["total"], asked["originator"]) == (1, f"retry of message {key}")
        assert "Retry of 1 message asked for." in html

    def test_that_is_sent_twice_is_asked_once(self, web: Web) -> None:
        key = receive(web)
        to = f"/messages/{key}/retry"
        form = forms_of(page(web, key))[to]

        web.post(to, form)
        web.post(to, form)

        assert len(operations(web)) == 1

    def test_goes_to_another_queue_where_asked_for(self, web: Web) -> None:
        key = receive(web)

        answer(web, key, "retry", destination="orders.repaired")

        assert operations(web)[0]["destination"] == "orders.repaired"

    def test_goes_without_the_headers_that_are_named(self, web: Web) -> None:
        key = receive(web)

        answer(web, key, "retry", drop_headers="x-trace")

        assert operations(web)[0]["drop_headers"] == ["x-trace"]

    def test_goes_to_no_queue_of_our_own(self, web: Web) -> None:
        key = receive(web)

        refused = answer(web, key, "retry", destination="error")

        assert refused.status_code == 400
        assert operations(web) == []

    def test_goes_to_no_queue_that_does_not_exist(self, web: Web) -> None:
        key = receive(web)
        web.api.look_at = lambda queues: Gone(missing=frozenset(queues))

        refused = answer(web, key, "retry", destination="nowhere")

        assert refused.status_code == 409
        assert "The queue nowhere does not exist" in refused.text
        assert operations(web) == []

    def test_is_not_offered_where_it_is_not_possible(self, web: Web) -> None:
        _, key = send(web)

        assert f"/messages/{key}/retry" not in forms_of(page(web, key))


class Gone:
    """A broker that lacks these queues."""

    why_not = None

    def __init__(self, missing: frozenset[str]) -> None:
        self.missing = missing
        self.unsure: dict[str, str] = {}


class TestDead:
    def test_is_declared_with_a_reason(self, web: Web) -> None:
        key = receive(web)

        html = follow(web, answer(web, key, "dead", why="the order was cancelled"))

        assert message(web, key)["disposition"] == "dead"
        assert "the order was cancelled" in state_of(html)
        assert "It is dead now" in html

    def test_may_be_given_a_reason(self, web: Web) -> None:
        key = receive(web)
        assert "<option>poison_message</option>" in web.get(f"/messages/{key}/dead")

        answer(web, key, "dead", why="crashes the parser", reason="poison_message")

        assert message(web, key)["reason"] == "poison_message"

    def test_with_a_reason_that_there_is_not_is_refused(self, web: Web) -> None:
        key = receive(web)

        refused = answer(web, key, "dead", why="crashes the parser", reason="posion")

        assert refused.status_code == 400
        assert "perhaps poison_message is meant" in refused.text
        assert message(web, key)["disposition"] == "manual"

    def test_needs_a_reason(self, web: Web) -> None:
        key = receive(web)

        assert answer(web, key, "dead", why=" ").status_code == 400
        assert message(web, key)["disposition"] == "manual"

    def test_that_is_declared_twice_is_no_error(self, web: Web) -> None:
        key = receive(web)
        to = f"/messages/{key}/dead"
        form = {**web.form(to, to), "why": "cancelled"}

        web.post(to, form)

        assert web.post(to, form).status_code == 303

    def test_is_refused_for_what_is_resolved(self, web: Web) -> None:
        key = receive(web)
        web.api.set_status(key, FailedMessageStatus.RESOLVED)

        refused = answer(web, key, "dead", why="cancelled")

        assert refused.status_code == 409
        assert "it is resolved already" in refused.text

    def test_is_revived_once(self, web: Web) -> None:
        key = receive(web)
        make_dead(web.api.db, key)
        to = f"/messages/{key}/revive"
        form = forms_of(page(web, key))[to]

        web.post(to, form)
        web.post(to, form)

        (asked,) = operations(web)
        assert asked["originator"] == f"revive of message {key}"


class TestPendingRetry:
    def test_is_retried_again_after_a_question(self, web: Web) -> None:
        _, key = send(web)

        answer(web, key, "again")

        assert len(operations(web)) == 2
        assert message(web, key)["status"] == "unresolved"

    def test_is_retried_again_once(self, web: Web) -> None:
        _, key = send(web)
        to = f"/messages/{key}/again"
        form = web.form(to, to)

        web.post(to, form)
        web.post(to, form)

        assert len(operations(web)) == 2

    def test_is_resolved_after_a_question(self, web: Web) -> None:
        _, key = send(web)

        html = follow(web, answer(web, key, "resolve"))

        assert message(web, key)["status"] == "resolved"
        assert "A person resolved it at" in state_of(html)

    def test_that_is_selected_in_a_list_is_retried_again(self, web: Web) -> None:
        _, key = send(web)
        html = web.get("/messages/selected", act="again", all="1", status="retry_issued")

        web.post("/messages/again", forms_of(html)["/messages/again"])

        assert "Retry 1 message again?" in html
        assert message(web, key)["status"] == "unresolved"


class TestArchive:
    def test_is_done_and_taken_back(self, web: Web) -> None:
        key = receive(web)

        html = follow(web, press(web, key, "archive"))
        (undo,) = [each for each in forms_of(html) if each.endswith("/undo")]
        web.post(undo, forms_of(html)[undo])

        assert "1 message archived." in html
        assert message(web, key)["status"] == "unresolved"

    def test_says_why_if_nothing_was_done(self, web: Web) -> None:
        key = receive(web)
        to = f"/messages/{key}/archive"
        form = forms_of(page(web, key))[to]
        web.api.set_status(key, FailedMessageStatus.RESOLVED)

        assert "it is resolved already" in follow(web, web.post(to, form))

    def test_of_an_unknown_message_is_404(self, web: Web) -> None:
        assert web.post(f"/messages/{NOBODY}/archive", {"key": "k"}).status_code == 404


class TestWhatItWaitsFor:
    def test_a_breaker_is_named(self, web: Web) -> None:
        (key,) = web.api.receive(failure(queue="orders"))
        web.api.http.post("/api/breakers/orders/open")

        html = web.get(f"/messages/{key}")

        assert "<b>Waits</b><div><bdi>“orders” is held by " in html
        assert 'href="/breakers">Breakers' in html
        assert "It waits for a person." not in html

    def test_the_message_that_holds_it_is_named(self, web: Web) -> None:
        head, held = fail_in_stream(Bench(web.api.db), 2)

        html = web.get(f"/messages/{held}")

        assert f"It is <bdi>held behind {head} (stream order 42), which waits for a person" in html
        assert "/streams/one?queue=orders&amp;stream=order+42" in html

    def test_its_place_in_its_stream_is_shown(self, web: Web) -> None:
        head, held = fail_in_stream(Bench(web.api.db), 2)

        assert "1 open before it, 2 in all" in web.get(f"/messages/{held}")
        assert "0 open before it, 2 in all" in web.get(f"/messages/{head}")
        assert "<b>Held</b>" not in web.get(f"/messages/{head}")

    @pytest.mark.parametrize(
        ("stated", "shown"),
        [
            ({"stream_position": read_position(12)}, "its sender states place 12<"),
            (
                {"stream_position_unread": "<b>third"},
                "the stated place <bdi>&lt;b&gt;third</bdi> is neither a number nor a time, so it",
            ),
        ],
        ids=["that can be read", "that cannot be read"],
    )
    def test_a_place_that_its_sender_states_is_shown(
        self, web: Web, stated: dict[str, object], shown: str
    ) -> None:
        assert shown in page(web, receive(web, stream_id="customer-7", **stated))

    def test_a_stream_that_is_done_leads_to_its_messages(self, web: Web) -> None:
        (only,) = fail_in_stream(Bench(web.api.db), 1)
        web.api.set_status(only, FailedMessageStatus.ARCHIVED)

        assert 'href="/messages?status=all&amp;stream=order+42"' in web.get(f"/messages/{only}")
