"""Streams on the page: listed with their heads, one in its order, and the release of what is held."""

import re
from html import unescape

import httpx
import pytest

from retrier.domain.streams import Stream
from retrier.web.counts import MOST_STREAMS
from retrier.web.live_values import live_values
from retrier.web.streams import row_key
from tests.support.bench import QUEUE, Bench
from tests.support.disposing import make_dead
from tests.support.streams import ORDER, STREAM, fail_in_stream, make_strict
from tests.support.web import Web, forms_of

SELECTABLE = re.compile(r'name="id" value="([^"]+)"')
LINK = re.compile(r'class="cause" href="([^"]+)"')
HOSTILE = ["a/b//c", "\"'><script>alert(1)</script>", "\u202egnorw", "% &?#=+", "x" * 10_000]
ROW = re.compile(r'data-row="message/([^"]+)"')


@pytest.fixture
def bench(web: Web) -> Bench:
    return Bench(web.api.db)


@pytest.fixture
def ids(bench: Bench) -> list[str]:
    return fail_in_stream(bench, 3)


def look(web: Web, stream: str = ORDER) -> str:
    return web.get("/streams/one", queue=QUEUE, stream=stream)


def release(web: Web, **chosen: str) -> httpx.Response:
    asked = web.get("/streams/release", queue=QUEUE, stream=ORDER, **chosen)
    return web.post("/streams/release", forms_of(asked)["/streams/release"])


def follow(web: Web, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["Location"])


def told(web: Web) -> dict[str, str]:
    """Return what open pages are told now."""
    web.counts.note_change()
    return live_values(web.counts.snapshot(), None)


def held(web: Web) -> list[str]:
    found = web.api.get(f"streams/{ORDER}", queue=QUEUE)["messages"]
    return [each["id"] for each in found if "held_because" in each]


class TestTheList:
    def test_says_how_to_make_one_where_there_is_none(self, web: Web) -> None:
        assert "No stream has an open message." in web.get("/streams")

    def test_has_each_with_what_stands_in_front(self, web: Web, ids: list[str]) -> None:
        html = web.get("/streams")

        assert f"/streams/one?queue={QUEUE}&amp;stream=order+42" in html
        row = row_key(STREAM)
        assert f'data-live="{row}/open">3<' in html
        assert f'data-live="{row}/held">2<' in html
        assert "The first is one which waits for a person." in html
        assert f'href="/messages/{ids[0]}"' in html

    @pytest.mark.usefixtures("ids")
    def test_can_be_of_those_that_hold_something(self, web: Web, bench: Bench) -> None:
        fail_in_stream(bench, 1, stream_id="alone")

        assert ">alone<" in web.get("/streams")
        assert ">alone<" not in web.get("/streams", held="1")

    @pytest.mark.usefixtures("ids")
    def test_can_be_of_one_queue(self, web: Web) -> None:
        assert "No such stream" in web.get("/streams", queue="elsewhere")

    @pytest.mark.usefixtures("ids")
    def test_tells_open_pages_how_much_is_held(self, web: Web) -> None:
        now = told(web)

        assert now["held"] == "2"
        assert now["held/text"] == "2 messages are held behind earlier ones, in 1 stream."

    def test_tells_open_pages_what_changed_in_a_row(self, web: Web, ids: list[str]) -> None:
        row, before = row_key(STREAM), told(web)
        make_dead(web.api.db, ids[0])
        dead = told(web)
        web.api.http.patch("/api/errors/archive", json=[ids[0]]).raise_for_status()
        after = told(web)

        assert (before[f"{row}/open"], before[f"{row}/held"]) == ("3", "2")
        assert "which is dead" in dead[f"{row}/waits"]
        assert (after[f"{row}/open"], after[f"{row}/held"]) == ("2", "1")
        assert after[f"{row}/head"] == f"/messages/{ids[1]}"

    def test_tells_open_pages_that_a_stream_has_ended(self, web: Web, ids: list[str]) -> None:
        told(web)
        web.api.http.patch("/api/errors/archive", json=ids).raise_for_status()

        assert told(web)[f"{row_key(STREAM)}/open"] == "0"

    def test_says_nothing_false_of_a_stream_that_fell_behind_many_others(
        self, web: Web, bench: Bench
    ) -> None:
        bench.fail(1, stream_id="a few")
        told(web)
        for number in range(MOST_STREAMS):
            bench.fail(2, stream_id=f"more {number}")
        make_strict(web.api.db)

        assert f"{row_key(Stream(QUEUE, 'a few'))}/open" not in told(web)

    @pytest.mark.parametrize("stream_id", HOSTILE)
    def test_has_streams_of_any_name(self, web: Web, bench: Bench, stream_id: str) -> None:
        fail_in_stream(bench, 2, stream_id=stream_id)

        html = web.get("/streams")
        link = unescape(LINK.findall(html)[0])

        assert "<script>" not in html
        assert "\u202e" not in html
        assert "2 messages are open" in web.get(link)
        assert len(html) < 20_000


class TestOneStream:
    def test_has_its_messages_in_order(self, web: Web, ids: list[str]) -> None:
        assert ROW.findall(look(web)) == ids

    def test_says_of_each_what_holds_it(self, web: Web, ids: list[str]) -> None:
        html = look(web)

        assert html.count(f"Held behind {ids[0]} (stream order 42)") == 2
        assert "2 are held behind the first, which waits for a person." in html

    def test_lets_only_those_be_selected_that_are_held(self, web: Web, ids: list[str]) -> None:
        assert SELECTABLE.findall(look(web)) == ids[1:]

    def test_says_that_its_head_is_dead(self, web: Web, ids: list[str]) -> None:
        make_dead(web.api.db, ids[0])

        assert "held behind the first, which is dead: archive, resolve or revive it" in look(web)

    def test_says_that_its_head_waits_for_a_breaker(self, web: Web, ids: list[str]) -> None:
        web.api.http.post(f"/api/breakers/{QUEUE}/open")

        html = look(web)

        assert f"held behind the first, which is not retried now: “{QUEUE}” is held by" in html
        assert ids[0] in html

    def test_without_a_strict_rule_holds_nothing(self, web: Web, bench: Bench) -> None:
        bench.fail(2, stream_id="free")

        html = look(web, "free")

        assert "2 messages are open, and nothing is held." in html
        assert "Release" not in html

    def test_that_is_unknown_is_said(self, web: Web) -> None:
        answer = web.http.get("/streams/one", params={"queue": QUEUE, "stream": "other"})

        assert answer.status_code == 404
        assert "No open message belongs to the stream other" in answer.text

    def test_may_have_any_id(self, web: Web, bench: Bench) -> None:
        fail_in_stream(bench, 2, stream_id="a/b?c=d&e <i>")

        assert "Stream <bdi>a/b?c=d&amp;e &lt;i&gt;</bdi>" in look(web, "a/b?c=d&e <i>")


class TestARelease:
    def test_asks_before_with_numbers(self, web: Web, ids: list[str]) -> None:
        asked = web.get("/streams/release", queue=QUEUE, stream=ORDER, all="1")

        assert "Release 2 messages?" in asked
        assert held(web) == ids[1:]

    @pytest.mark.usefixtures("ids")
    def test_lets_go_all_that_is_held(self, web: Web) -> None:
        html = follow(web, release(web, all="1"))

        assert "Released: it may be retried" in html
        assert "released by hand" in html
        assert held(web) == []

    def test_lets_go_only_what_is_chosen(self, web: Web, ids: list[str]) -> None:
        follow(web, release(web, id=ids[2]))

        assert held(web) == [ids[1]]

    @pytest.mark.usefixtures("ids")
    def test_of_nothing_asks_nothing(self, web: Web) -> None:
        answer = web.http.get("/streams/release", params={"queue": QUEUE, "stream": ORDER})

        assert "Nothing was selected" in follow(web, answer)

    @pytest.mark.usefixtures("ids")
    def test_sent_twice_is_done_once(self, web: Web) -> None:
        asked = web.get("/streams/release", queue=QUEUE, stream=ORDER, all="1")
        form = forms_of(asked)["/streams/release"]

        first, again = (web.post("/streams/release", form) for _ in range(2))

        assert "Released" in follow(web, first)
        assert "Nothing was left that could be changed." in follow(web, again)

    def test_of_a_message_of_another_stream_is_refused(self, web: Web, bench: Bench) -> None:
        fail_in_stream(bench, 2)
        (stranger,) = bench.fail()

        answer = release(web, id=stranger)

        assert answer.status_code == 409
        assert f"Not in this stream: {stranger}" in answer.text

    def test_of_a_stream_that_is_gone_is_refused(self, web: Web, ids: list[str]) -> None:
        asked = web.get("/streams/release", queue=QUEUE, stream=ORDER, all="1")
        web.api.http.patch("/api/errors/archive", json=ids)

        answer = web.post("/streams/release", forms_of(asked)["/streams/release"])

        assert answer.status_code == 404
