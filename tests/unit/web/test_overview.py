"""The overview: what is the matter, in the first HTML."""

import re
from datetime import timedelta
from html import unescape

from sqlalchemy import update

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.wire import Refused
from retrier.store.schema import failed_message_retries
from retrier.web.series import Series
from tests.contract.store_retries import SENT, bring_to
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, failed_import, failure
from tests.support.script import to_queue
from tests.support.streams import fail_in_stream
from tests.support.web import Web, forms_of


def headline_of(html: str) -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", html)
    assert found is not None
    return found[1]


def test_it_says_that_nothing_is_unresolved(web: Web) -> None:
    html = web.get("/")

    assert headline_of(html) == "Nothing is unresolved"


def test_where_nothing_failed_it_says_what_happens_next(web: Web) -> None:
    html = web.get("/")

    assert "No message has failed yet" in html


def test_it_says_how_many_are_unresolved_and_why(web: Web) -> None:
    web.api.receive(failure(), failure(), failure(exception_type="Shop.NoStock"))

    html = web.get("/")

    assert headline_of(html) == "3 messages are unresolved, in two groups"


def test_one_group_is_named_in_the_headline(web: Web) -> None:
    web.api.receive(failure(), failure())

    html = web.get("/")

    assert headline_of(html).startswith("2 messages are unresolved: Shop.OutOfStock")


def test_it_shows_each_group_with_its_count_cause_and_queue(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="orders"))

    html = web.get("/")

    assert "Shop.OutOfStock: Shop.Stock.Take(String item)" in html
    assert "nothing left" in html
    assert 'queue <a href="/messages?queue=orders"><bdi>orders</bdi></a>' in html
    assert re.search(r'data-live="group/0/[^"]+/count">2<', html)


def test_it_shows_when_a_group_failed_first_and_last(web: Web) -> None:
    later = FAILED_AT + timedelta(hours=1)
    web.api.receive(failure(), failure(time_of_failure=later))

    html = web.get("/")

    assert 'datetime="2026-05-04T12:00:00.000Z"' in html
    assert 'datetime="2026-05-04T13:00:00.000Z"' in html


def test_it_counts_queues(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="stock"), failure(queue="stock"))

    html = web.get("/")

    assert 'data-live="queue/stock/count">2<' in html
    assert 'data-live="queue/orders/count">1<' in html


def test_a_queue_leads_to_its_messages_and_offers_their_retry(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="stock"), failure(queue="stock"))

    html = web.get("/")

    assert '<td class="cause" data-label="Queue"><a href="/messages?queue=stock">' in html
    (retry,) = re.findall(r'href="(/messages/selected[^"]*queue=stock[^"]*)"', html)
    assert "Retry 2 messages?" in web.get(unescape(retry))


def test_what_is_being_retried_leads_to_its_operation(web: Web) -> None:
    web.api.receive(failure())
    web.post("/retry", web.form("/retry", "/retry"))
    (asked,) = web.api.get("operations")

    assert f'<a class="cause" href="/operations/{asked["id"]}">' in web.get("/")


def test_what_is_archived_is_not_counted_as_unresolved(web: Web) -> None:
    (one, _) = web.api.receive(failure(), failure())
    web.api.set_status(one, FailedMessageStatus.ARCHIVED)

    html = web.get("/")

    assert 'data-live="tile/unresolved">1<' in html
    assert 'data-live="tile/archived">1<' in html


def need(html: str, key: str) -> str:
    """Return how many there are of something that needs a person; empty if it is not told."""
    found = re.search(f'data-live="need/{key}/count">([^<]*)<', html)
    return found[1] if found else ""


class TestWhatNeedsAPerson:
    def test_says_so_where_nothing_does(self, web: Web) -> None:
        assert "Nothing needs you." in web.get("/")

    def test_a_group_first_seen_today_is_new_and_leads_to_the_new_ones(self, web: Web) -> None:
        now = web.api.db.read(lambda tx: tx.now)
        web.api.receive(failure(time_of_failure=now, exception_type="Shop.New"), failure())

        html = web.get("/")

        assert need(html, "new") == "1"
        assert html.count('<span class="badge wait">new</span>') == 1
        assert "Shop.New" in (new := web.get("/groups", since="24h"))
        assert "Shop.OutOfStock" not in new
        assert "first seen since" in new

    def test_what_came_back_leads_to_these_messages_until_somebody_has_seen_it(
        self, web: Web
    ) -> None:
        bench = Bench(web.api.db)
        retry = bring_to(bench, SENT)
        retry.fail(retry_id=retry.retry_id)
        bench.work()
        operation = retry.created.operation_id

        html = web.get("/")

        assert need(html, f"back-{operation}") == "1"
        assert f'href="/messages?operation={operation}&amp;outcome=came_back"' in html
        acknowledge = f"/operations/{operation}/acknowledge"
        web.post(acknowledge, forms_of(html)[acknowledge])
        assert need(web.get("/"), f"back-{operation}") == ""

    def test_what_could_not_be_sent_is_told_until_somebody_has_seen_it(self, web: Web) -> None:
        bench = Bench(web.api.db)
        bench.fail(2)
        bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=None)
        operation = bench.ask_all().operation_id
        bench.work()

        html = web.get("/")

        assert need(html, f"unsent-{operation}") == "2"
        acknowledge = f"/operations/{operation}/acknowledge"
        web.post(acknowledge, forms_of(html)[acknowledge])
        assert need(web.get("/"), f"unsent-{operation}") == ""

    def test_a_paused_operation_is_resumed_from_there(self, web: Web) -> None:
        bench = Bench(web.api.db)
        bench.fail(3)
        operation = bench.ask_all().operation_id
        web.api.http.patch(f"/api/operations/{operation}", json={"paused": True})
        html = web.get("/")

        web.post(
            f"/operations/{operation}/resume", forms_of(html)[f"/operations/{operation}/resume"]
        )

        assert need(html, f"stopped-{operation}") == "3"
        assert need(web.get("/"), f"stopped-{operation}") == ""

    def test_failed_imports_are_read_again_from_there(self, web: Web) -> None:
        web.api.receive(failed_import())

        html = web.get("/")

        assert need(html, "imports") == "1"
        assert "could not be read" in html
        assert 'href="/imports/selected?act=again&amp;all=1"' in html

    def test_open_pages_are_told_how_many_there_are(self, web: Web) -> None:
        web.api.receive(failed_import())
        web.counts.tick()

        assert b'"need/imports/count":"1"' in web.live.since("")


def test_it_says_that_retries_wait_for_a_processor(web: Web) -> None:
    html = web.get("/")

    assert "no process holds the lease" in html.lower()


def test_a_hostile_exception_is_shown_and_not_run(web: Web) -> None:
    hostile = "<script>alert(1)</script>"
    web.api.receive(failure(exception_message=hostile, exception_type=hostile, queue=hostile))

    html = web.get("/")

    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_plot_counts_failures_retries_and_confirmations_in_words(web: Web) -> None:
    now = web.api.db.read(lambda tx: tx.now)
    web.api.receive(failure(received_at=now), failure(received_at=now))

    html = web.get("/")

    assert "The last hour: 2 failures, 0 retries sent, 0 confirmations" in html


def test_the_plot_of_a_day_has_what_is_older_than_an_hour(web: Web) -> None:
    now = web.api.db.read(lambda tx: tx.now)
    web.api.receive(failure(received_at=now - timedelta(hours=5)))

    html = web.get("/", span="day")

    assert "The last 24 hours: 1 failure," in html


class TestThePlot:
    def test_a_week_and_a_month_have_what_is_older_than_a_day(self, web: Web) -> None:
        now = web.api.db.read(lambda tx: tx.now)
        web.api.receive(*(failure(received_at=now - timedelta(days=each)) for each in (0, 3, 20)))
        look_twice(web)

        assert "The last 7 days: 2 failures," in web.get("/", span="week")
        assert "The last 30 days: 3 failures," in web.get("/", span="month")
        assert "The last 6 hours: 1 failure," in web.get("/", span="6h")

    def test_a_week_has_retries_that_ended_before_the_service_started(self, web: Web) -> None:
        retry = bring_to(Bench(web.api.db), SENT)
        old = web.api.db.read(lambda tx: tx.now) - timedelta(days=3)
        with web.api.db.engine.begin() as conn:
            conn.execute(update(failed_message_retries).values(forwarded_at=old))
        look_twice(web)

        assert retry.retry_id
        assert "0 failures, 1 retry sent" in web.get("/", span="week")
        assert "0 retries sent" in web.get("/", span="day")

    def test_it_marks_what_was_done_and_lists_it_for_who_cannot_see_it(self, web: Web) -> None:
        web.api.http.post("/api/breakers/orders/open")
        look_twice(web)

        html = web.get("/")

        assert html.count('<path class="mark bad"') == 1
        assert "1 mark of what was done" in html
        assert "breaker opened: " in html

    def test_an_hour_that_ends_becomes_a_part_of_the_week(self, web: Web) -> None:
        now = web.api.db.read(lambda tx: tx.now)
        web.api.receive(failure(received_at=now))
        series = Series(web.api.db)
        series.look(now)
        series.count_new_failures()
        series.look(now)

        series.look(now + timedelta(days=2))

        assert series.minutes() == []
        assert [each.failed for each in series.hours()] == [1]

    def test_an_unknown_span_is_refused(self, web: Web) -> None:
        answer = web.http.get("/", params={"span": "century"})

        assert answer.status_code == 400
        assert "What may be said of span: hour, " in answer.text


def look_twice(web: Web) -> None:
    """Let the counts look again: what is older than a day is not read at the first look."""
    web.counts.tick()
    for _ in range(2):
        web.counts.note_change()
        web.api.clock.advance(60)
        web.counts.tick()


class TestWhatWaits:
    """The first page says what is open and what is held."""

    def test_says_which_breaker_is_open_and_why(self, web: Web) -> None:
        web.api.receive(failure(queue="orders"))
        web.api.http.post("/api/breakers/orders/open", json={"why": "it is moved"})

        html = web.get("/")

        assert "Breakers hold retries to orders." in html
        assert re.search(r"“orders” is held by [^<]*its messages wait, others go on\.<", html)
        assert need(html, "breaker-orders") == "1"
        assert 'href="/breakers/close?breaker=' in html

    def test_tells_of_many_breakers_how_many(self, web: Web) -> None:
        for queue in "abcde":
            web.api.http.post(f"/api/breakers/{queue}/open")

        html = web.get("/")

        assert "Breakers hold retries to a, b and 3 more." in html
        assert need(html, "breaker-more") == "2"

    def test_says_how_much_is_held(self, web: Web) -> None:
        fail_in_stream(Bench(web.api.db), 3)

        html = web.get("/")

        assert html.count("2 messages are held behind earlier ones, in 1 stream.") == 2
        assert 'href="/streams?held=1"' in html

    def test_says_nothing_of_either_where_there_is_none(self, web: Web) -> None:
        web.api.receive(failure(stream_id="free"))

        html = web.get("/")

        assert "Breakers hold" not in html
        assert "held behind" not in html

    def test_says_at_a_group_why_it_waits(self, web: Web) -> None:
        web.api.receive(failure(queue="orders"))
        web.api.http.post("/api/breakers/orders/open")

        for path in ("/", "/groups"):
            assert re.search(r">waits</span></a> <bdi>“orders” is held by ", web.get(path))
