"""Breakers on the page: listed with what waits, opened and closed by hand."""

import httpx
import pytest

from retrier.web.live_values import live_values
from tests.support.breaking import Breakdown
from tests.support.factories import failure
from tests.support.web import Web, forms_of


@pytest.fixture
def bench(web: Web) -> Breakdown:
    return Breakdown(web.api.db)


def act(web: Web, word: str, breaker: str = "orders", **fields: str) -> httpx.Response:
    asked = web.get(f"/breakers/{word}", breaker=breaker)
    return web.post(f"/breakers/{word}", forms_of(asked)[f"/breakers/{word}"] | fields)


def hold(web: Web, breaker: str = "orders", **fields: str) -> str:
    return follow(web, act(web, "open", breaker, **{"for": "2", "unit": "h", **fields}))


def follow(web: Web, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["Location"])


def states(web: Web) -> dict[str, str]:
    return {each["key"]: each["state"] for each in web.api.get("breakers")}


class TestTheList:
    def test_says_what_a_breaker_is_where_there_is_none(self, web: Web) -> None:
        assert "There is no breaker." in web.get("/breakers")

    def test_says_of_one_that_opened_by_itself_since_when_and_why(
        self, web: Web, bench: Breakdown
    ) -> None:
        bench.break_down()
        bench.work()

        html = web.get("/breakers")

        assert "“orders” answers nothing since " in html
        assert 'data-live="breaker/orders/state">open<' in html
        assert 'data-live="breaker/orders/failed">4 of 4<' in html
        assert 'data-live="breaker/orders/count">4<' in html

    def test_counts_only_what_waits_for_it(self, web: Web) -> None:
        web.api.receive(failure(queue="orders"), failure(queue="bills"))

        assert 'data-live="breaker/orders/count">1<' in hold(web)

    def test_counts_by_message_type_too(self, web: Web) -> None:
        web.api.receive(failure(message_type="A"), failure(message_type="A"), failure())

        html = hold(web, "message_type:A")

        assert 'data-live="breaker/message_type:A/count">2<' in html
        assert ">message type<" in html

    def test_tells_open_pages_what_changed(self, web: Web) -> None:
        web.api.receive(failure(queue="orders"))
        hold(web)

        told = live_values(web.counts.snapshot(), None)

        assert told["breaker/orders/state"] == "open"
        assert told["breaker/orders/words"].startswith("“orders” is held by ")
        assert told["breaker/orders/tone"] == "bad"
        assert told["breaker/orders/until"] == "by hand until"
        assert told["breaker/orders/held"] == "1"

    def test_tells_open_pages_that_one_is_closed(self, web: Web) -> None:
        hold(web)
        follow(web, act(web, "close"))

        told = live_values(web.counts.snapshot(), None)

        assert told["breaker/orders/state"] == "closed"
        assert [told[f"breaker/orders/{key}"] for key in ("tone", "until", "held")] == ["", "", ""]


class TestOpening:
    def test_asks_before_with_the_number_of_messages(self, web: Web) -> None:
        web.api.receive(failure(queue="orders"), failure(queue="orders"))

        html = web.get("/breakers/open", breaker="orders")

        assert "2 unresolved messages go there: their retries wait" in html
        assert states(web) == {}

    def test_holds_for_the_time_that_is_given_and_says_why(self, web: Web) -> None:
        web.api.receive(failure(queue="orders"))

        html = hold(web, why="it is moved")

        assert "The breaker is open: its messages wait" in html
        assert "(&#34;it is moved&#34;)" in html
        assert states(web) == {"orders": "open"}

    def test_says_that_a_name_was_never_seen(self, web: Web) -> None:
        assert "nothing has failed there" in hold(web, "orderz")

    def test_takes_a_name_with_slashes(self, web: Web) -> None:
        hold(web, "a/b")

        assert states(web) == {"a/b": "open"}

    @pytest.mark.parametrize(
        ("time", "unit"),
        [("", "h"), ("0", "s"), ("8", "d"), ("1.5", "h"), ("-1", "h"), ("²", "h"), ("1", "w")],
    )
    def test_refuses_a_time_out_of_bounds(self, web: Web, time: str, unit: str) -> None:
        answer = act(web, "open", **{"for": time, "unit": unit})

        assert answer.status_code == 400
        assert "1 second to 7 days" in answer.text
        assert states(web) == {}

    @pytest.mark.parametrize("name", ["", "message_type:", "q" * 501])
    def test_refuses_what_is_no_name(self, web: Web, name: str) -> None:
        assert web.http.get("/breakers/open", params={"breaker": name}).status_code == 400


class TestClosing:
    def test_lets_retries_go_again(self, web: Web) -> None:
        hold(web)

        html = follow(web, act(web, "close"))

        assert "The breaker is closed" in html
        assert states(web) == {"orders": "closed"}

    def test_may_be_for_a_time(self, web: Web) -> None:
        html = follow(web, act(web, "close", **{"for": "1", "unit": "h"}))

        assert "keeps it closed." in html
        assert "by hand until" in html


class TestANameOfAnyKind:
    @pytest.mark.parametrize(
        "name", ["a/b//c", "\"'><script>alert(1)</script>", "\u202egnorw", "% &?#=+", "q" * 500]
    )
    def test_is_opened_shown_and_closed(self, web: Web, name: str) -> None:
        html = hold(web, name)

        assert states(web) == {name: "open"}
        assert "<script>" not in html
        follow(web, act(web, "close", name))
        assert states(web) == {name: "closed"}
