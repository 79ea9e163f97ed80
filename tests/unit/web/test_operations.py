"""The pages of retry operations: what was asked, how far it is, and steering it."""

import re
from collections import Counter

import pytest
from sqlalchemy import select

from retrier.domain.retry_operation import STANDING_OPERATION, Canary, RetryTerms
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import failed_messages
from tests.contract.store_retries import BEING_SENT, bring_to
from tests.support.bench import Bench
from tests.support.breaking import Breakdown
from tests.support.scheduling import LATER, schedule
from tests.support.streams import fail_in_stream
from tests.support.web import Web, forms_of

NOBODY = "12345678-1234-4234-8234-123456789abc"
STANDING = f"/operations/{STANDING_OPERATION}"


@pytest.fixture
def bench(web: Web) -> Bench:
    return Bench(web.api.db)


@pytest.fixture
def asked(bench: Bench) -> CreatedOperation:
    """Give an operation of three messages that nothing was sent of."""
    bench.fail(3)
    return bench.ask_all()


def path(created: CreatedOperation, more: str = "") -> str:
    return f"/operations/{created.operation_id}{more}"


def act(web: Web, created: CreatedOperation, name: str, **fields: str) -> str:
    """Send the form of an act, and follow it; return what is shown then."""
    form = web.form(path(created), path(created, f"/{name}"))
    answer = web.post(path(created, f"/{name}"), {**form, **fields})
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["Location"])


def version(web: Web) -> str:
    """Return the version of what open pages were told last."""
    assert web.counts.last is not None
    return web.counts.last.version


def state(web: Web, created: CreatedOperation) -> object:
    return web.api.get(f"operations/{created.operation_id}")["state"]


class TestTheList:
    def test_says_what_to_do_where_nothing_was_asked_for(self, web: Web) -> None:
        assert "No retry was asked for yet." in web.get("/operations")

    def test_has_what_was_asked_by_whom_and_why(self, web: Web) -> None:
        body = {"selection": {"all": True}, "why": "fix is out"}
        web.api.http.post("/api/operations", json=body, headers={"X-Retrier-User": "ada"})

        html = web.get("/operations")

        assert "Retry of all messages" in html
        assert re.search(r"by ada \([^)]*\): “fix is out”", html)

    def test_has_the_standing_operation_before_everything_else(
        self, web: Web, bench: Bench
    ) -> None:
        schedule(web.api.db, bench.fail(2), within=LATER)
        bench.fail(1)
        newer = bench.ask_all()

        html = web.get("/operations")

        assert html.index(STANDING_OPERATION) < html.index(newer.operation_id)
        assert re.search(r"2 scheduled · the next in \d+ minutes · 0 sent so far", html)

    def test_has_on_its_second_page_what_the_first_has_not(self, web: Web, bench: Bench) -> None:
        ids = [bench.ask(bench.fail(1)).operation_id for _ in range(51)]

        pages = [web.get("/operations", page=page) for page in ("1", "2")]

        rows = [re.findall(r'data-row="operation/([^"]+)"', html) for html in pages]
        assert len(rows[1]) == 1
        assert rows[1][0] == ids[0]


class TestOne:
    def test_is_404_if_there_is_none(self, web: Web) -> None:
        answer = web.http.get(f"/operations/{NOBODY}")

        assert answer.status_code == 404
        assert "No operation has the id" in answer.text

    def test_tells_how_far_it_is_in_places_that_follow_it(
        self, web: Web, asked: CreatedOperation, bench: Bench
    ) -> None:
        bench.work()

        html = web.get(path(asked))

        key = f"operation/{asked.operation_id}"
        assert f'data-live="{key}/forwarded">3<' in html
        assert f'data-live="{key}/remaining">0<' in html

    def test_what_follows_it_is_told_to_open_pages(self, web: Web, asked: CreatedOperation) -> None:
        web.get("/")

        told = web.live.since("").decode()

        assert f'"operation/{asked.operation_id}/remaining":"3"' in told.replace(": ", ":")

    def test_is_told_what_changed_while_it_was_being_read(
        self, web: Web, asked: CreatedOperation, bench: Bench
    ) -> None:
        web.get("/")
        before = version(web)
        bench.work()
        web.api.clock.advance(2)

        html = web.get(path(asked))

        assert version(web) != before
        assert f'data-live="{before}"' in html

    def test_tells_what_became_of_its_retries(
        self, web: Web, asked: CreatedOperation, bench: Bench
    ) -> None:
        bench.work()

        html = web.get(path(asked))

        assert "3 without outcome yet" in html
        operation = path(asked).rpartition("/")[2]
        assert f'<a href="/pending?operation={operation}"' in html

    def test_links_what_came_back(self, web: Web, asked: CreatedOperation, bench: Bench) -> None:
        bench.work()
        (message, *_) = bench.rows(select(failed_messages))
        bench.confirm(message["unique_message_id"])

        html = web.get(path(asked))

        operation = path(asked).rpartition("/")[2]
        link = f"/messages?operation={operation}&amp;outcome=confirmed"
        assert f'<a href="{link}"' in html
        assert message["unique_message_id"] in web.get(link.replace("&amp;", "&"))

    def test_says_why_named_messages_were_skipped(self, web: Web, bench: Bench) -> None:
        (one,) = bench.fail(1)
        named = bench.ask([one, NOBODY])
        bench.work()

        html = web.get(path(named))

        assert "Skipped" in html
        assert NOBODY in html

    def test_says_how_many_dead_messages_it_left_out(self, web: Web, bench: Bench) -> None:
        dead, _ = bench.fail(2)
        web.api.http.post(f"/api/errors/{dead}/dead", json={"why": "no use"})
        asked = bench.ask_all()

        html = web.get(path(asked))

        assert "1 message is dead and left out." in html
        assert 'href="/messages?disposition=dead"' in html

    def test_shows_its_canary(self, web: Web, bench: Bench) -> None:
        bench.fail(3)
        asked = bench.ask_all(RetryTerms(canary=Canary(size=2)))

        html = web.get(path(asked))

        assert "The first messages are being sent alone." in html
        assert "0 of 2 sent, 0 came back, 0 may within 1 minute." in html

    def test_shows_what_is_in_doubt_of_its_batch(self, web: Web, bench: Bench) -> None:
        retry = bring_to(bench, BEING_SENT)

        html = web.get(path(retry.created))

        assert "1 message is in doubt" in html
        assert f'href="/messages/{retry.key}"' in html
        assert retry.retry_id in html

    def test_shows_what_was_logged_of_it(self, web: Web, asked: CreatedOperation) -> None:
        html = web.get(path(asked))

        assert "retry asked" in html

    def test_of_another_kind_is_led_to_its_page(self, web: Web, bench: Bench) -> None:
        web.api.http.post("/api/errors/archive", json=bench.fail(1))
        (archived,) = web.api.get("archive_operations")

        answer = web.http.get(f"/operations/{archived['id']}")

        assert answer.headers["Location"] == f"/archive_operations/{archived['id']}"


class TestSteering:
    def test_it_is_paused_and_goes_on(self, web: Web, asked: CreatedOperation) -> None:
        paused = act(web, asked, "pause")
        assert "It is paused: what is being sent is finished" in paused
        assert state(web, asked) == "paused"

        resumed = act(web, asked, "resume")

        assert "It goes on." in resumed
        assert state(web, asked) == "waiting"

    def test_its_rate_is_set_and_lifted(self, web: Web, asked: CreatedOperation) -> None:
        limited = act(web, asked, "rate", rate="20")
        assert "20 messages a second at most" in limited

        act(web, asked, "rate", rate="")

        assert "rate" not in web.api.get(f"operations/{asked.operation_id}")

    def test_a_rate_that_is_no_number_is_refused(self, web: Web, asked: CreatedOperation) -> None:
        form = web.form(path(asked), path(asked, "/rate"))

        answer = web.post(path(asked, "/rate"), {**form, "rate": "0"})

        assert answer.status_code == 400

    def test_a_cancel_is_asked_for_once_with_numbers(
        self, web: Web, asked: CreatedOperation
    ) -> None:
        question = web.get(path(asked, "/cancel"))
        assert "Not sent yet: 3 messages." in question
        assert state(web, asked) == "waiting"

        form = forms_of(question)[path(asked, "/cancel")]
        answer = web.post(path(asked, "/cancel"), form)

        assert "It is cancelled:" in web.get(answer.headers["Location"])
        assert web.api.get(f"operations/{asked.operation_id}")["cancel_asked"]

    def test_what_a_cancel_stopped_is_not_called_skipped(
        self, web: Web, asked: CreatedOperation, bench: Bench
    ) -> None:
        web.api.http.delete(f"/api/operations/{asked.operation_id}")
        bench.work()

        html = web.get(f"/operations/{asked.operation_id}")

        assert "Not sent <small>3 messages</small>" in html
        assert "Skipped" not in html

    def test_what_is_over_is_left_as_it_is(
        self, web: Web, asked: CreatedOperation, bench: Bench
    ) -> None:
        bench.work()

        answer = web.post(path(asked, "/pause"), {"key": "k"})

        assert answer.status_code == 409
        assert "it is completed: all of it is done" in answer.text

    def test_who_is_not_there_cannot_be_steered(self, web: Web) -> None:
        assert web.post(f"/operations/{NOBODY}/pause", {"key": "k"}).status_code == 404


class TestTheStandingOperation:
    @pytest.fixture(autouse=True)
    def _scheduled(self, web: Web, bench: Bench) -> None:
        schedule(web.api.db, bench.fail(1), within=LATER)

    def test_says_why_it_cannot_be_cancelled(self, web: Web) -> None:
        html = web.get(STANDING)

        assert "It cannot be cancelled: it sends what is due by policy, and never ends." in html
        assert f"{STANDING}/cancel" not in html

    def test_is_not_cancelled_by_an_address_either(self, web: Web) -> None:
        assert "It cannot be cancelled" in web.get(f"{STANDING}/cancel")
        assert web.post(f"{STANDING}/cancel", {"key": "k"}).status_code == 409

    def test_is_paused(self, web: Web) -> None:
        form = web.form(STANDING, f"{STANDING}/pause")

        web.post(f"{STANDING}/pause", form)

        assert web.api.get(f"operations/{STANDING_OPERATION}")["state"] == "paused"


class TestAcknowledging:
    def test_takes_what_is_over_off_the_history(
        self, web: Web, asked: CreatedOperation, bench: Bench
    ) -> None:
        bench.work()
        assert web.api.get("recoverability/history")["unacknowledged_operations"]

        act(web, asked, "acknowledge")

        assert not web.api.get("recoverability/history")["unacknowledged_operations"]
        assert path(asked, "/acknowledge") not in forms_of(web.get(path(asked)))

    def test_takes_earlier_ones_that_asked_for_the_same_too(self, web: Web, bench: Bench) -> None:
        for _ in range(2):
            bench.fail(1)
            asked = bench.ask_all()
            bench.work()

        act(web, asked, "acknowledge")

        assert not web.api.get("recoverability/history")["unacknowledged_operations"]

    def test_leaves_what_asked_for_something_else(self, web: Web, bench: Bench) -> None:
        bench.fail(1)
        other = web.api.http.post(f"/api/errors/queues/{'x'}/retry").json()["operation_id"]
        asked = bench.ask_all()
        bench.work()

        act(web, asked, "acknowledge")

        (left,) = web.api.get("recoverability/history")["unacknowledged_operations"]
        assert left["operation_id"] == other

    def test_is_written_down_once(self, web: Web, asked: CreatedOperation, bench: Bench) -> None:
        bench.work()
        form = web.form(path(asked), path(asked, "/acknowledge"))

        for _ in range(2):
            web.post(path(asked, "/acknowledge"), form)

        kinds = Counter(each["kind"] for each in web.api.get("eventlogitems"))
        assert kinds["acknowledged"] == 1


class TestWhereToLook:
    def test_one_that_waits_for_a_breaker_leads_to_the_breakers(self, web: Web) -> None:
        bench = Breakdown(web.api.db)
        bench.break_down()
        bench.work()
        made = bench.ask_all()
        bench.work()

        html = web.get(f"/operations/{made.operation_id}")

        assert "“orders” answers nothing since" in html
        assert 'Look at: <a href="/breakers">Breakers</a><' in html

    def test_one_that_waits_for_a_stream_leads_to_the_streams(self, web: Web) -> None:
        bench = Bench(web.api.db)
        fail_in_stream(bench, 2)
        made = bench.ask_all()
        bench.work()

        html = web.get(f"/operations/{made.operation_id}")

        assert 'Look at: <a href="/streams?held=1">Streams</a><' in html

    def test_one_that_goes_on_leads_nowhere(self, web: Web) -> None:
        bench = Bench(web.api.db)
        bench.fail()

        assert "Look at:" not in web.get(f"/operations/{bench.ask_all().operation_id}")
