"""Pending retries: what was sent and has no outcome, and ending the wait with the doubt explained."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import update

from retrier.store.recovery import begin_recovery, get_recovery
from retrier.store.redirects import create_redirect
from retrier.store.schema import failed_message_retries
from tests.support.bench import QUEUE, Bench
from tests.support.web import Web, forms_of

RETRY, RESOLVE = "/pending/retry", "/pending/resolve"
END_RECOVERY = "/pending/recovery/end"
DAYS = timedelta(days=2)
AFTERWARDS = timedelta(minutes=-1)
"""Sent after the preview, by the clock of the database."""


@pytest.fixture
def bench(web: Web) -> Bench:
    return Bench(web.api.db)


def send(bench: Bench, ago: timedelta = timedelta(0)) -> str:
    """Let one retry have been sent so long ago; return the id of its message."""
    (key,) = bench.fail()
    bench.ask([key])
    bench.work()
    sent = bench.db.read(lambda tx: tx.now) - ago
    mine = failed_message_retries.c.number == bench.message(key)["number"]
    with bench.db.engine.begin() as conn:
        values = {"sending_since": sent, "forwarded_at": sent}
        conn.execute(update(failed_message_retries).where(mine).values(**values))
    return key


def shown(html: str) -> list[str]:
    return re.findall(r'data-row="pending/([^"]+)"', html)


def test_an_empty_list_says_that_every_retry_has_an_outcome(web: Web) -> None:
    assert "Every retry that was sent has an outcome." in web.get("/pending")


def test_the_longest_wait_comes_first(web: Web, bench: Bench) -> None:
    young, old = send(bench), send(bench, DAYS)

    html = web.get("/pending")

    assert shown(html) == [old, young]
    assert bench.retry_id(old) in html


def test_it_is_narrowed_by_age_queue_and_operation(web: Web, bench: Bench) -> None:
    old, young = send(bench, DAYS), send(bench)
    operation = web.api.get("operations")[0]["id"]

    assert shown(web.get("/pending", older="day")) == [old]
    assert shown(web.get("/pending", operation=operation)) == [young]
    assert shown(web.get("/pending", queue="other")) == []


@pytest.mark.parametrize(("path", "doubt"), [(RETRY, "handled twice"), (RESOLVE, "you say so")])
def test_the_doubt_is_explained_before_anything_is_done(
    web: Web, bench: Bench, path: str, doubt: str
) -> None:
    key = send(bench)

    html = web.get(path, id=key)

    assert doubt in html
    assert shown(web.get("/pending")) == [key]


def test_a_preview_counts_messages_and_destinations(web: Web, bench: Bench) -> None:
    send(bench), send(bench)

    html = web.get(RETRY, all="yes")

    assert "Retry 2 messages once more?" in html
    assert re.search(rf"<b><bdi>{QUEUE}</bdi></b></td><td class=\"num\">2<", html)


def test_a_preview_follows_redirects(web: Web, bench: Bench) -> None:
    key = send(bench)
    create_redirect(web.api.db, QUEUE, "elsewhere", own_queues=frozenset(), who="ada")

    html = web.get(RETRY, id=key)

    assert "<b><bdi>elsewhere</bdi></b>" in html


def test_the_selected_ones_are_retried_again(web: Web, bench: Bench) -> None:
    one, other = send(bench), send(bench)
    form = forms_of(web.get(RETRY, id=one))[RETRY]

    answer = web.post(RETRY, form)
    bench.work()

    assert "Retry of 1 message asked for." in web.get(answer.headers["Location"])
    assert sorted(bench.sent()) == sorted([one, one, other])


def test_a_form_that_is_sent_twice_retries_once(web: Web, bench: Bench) -> None:
    key = send(bench)
    form = forms_of(web.get(RETRY, id=key))[RETRY]

    web.post(RETRY, form)
    web.post(RETRY, form)
    bench.work()

    assert bench.sent() == [key, key]


def test_all_of_an_age_are_resolved_and_no_others(web: Web, bench: Bench) -> None:
    send(bench, DAYS)
    young = send(bench)
    form = forms_of(web.get(RESOLVE, all="yes", older="day"))[RESOLVE]

    answer = web.post(RESOLVE, form)

    assert "1 message resolved." in web.get(answer.headers["Location"])
    assert shown(web.get("/pending")) == [young]


@pytest.mark.parametrize("path", [RETRY, RESOLVE])
def test_what_is_sent_after_the_preview_is_not_part_of_it(
    web: Web, bench: Bench, path: str
) -> None:
    send(bench)
    form = forms_of(web.get(path, all="yes"))[path]
    later = send(bench, AFTERWARDS)

    web.post(path, form)

    assert later in shown(web.get("/pending"))


def test_a_selected_one_that_has_its_outcome_by_now_is_not_sent(web: Web, bench: Bench) -> None:
    key = send(bench)
    form = forms_of(web.get(RETRY, id=key))[RETRY]
    bench.confirm(key)

    web.post(RETRY, form)
    bench.work()

    assert bench.sent() == [key]


def test_if_all_have_their_outcome_by_now_nothing_is_asked(web: Web, bench: Bench) -> None:
    key = send(bench)
    form = forms_of(web.get(RETRY, all="yes"))[RETRY]
    bench.confirm(key)

    answer = web.post(RETRY, form)

    assert "Nothing of it was pending any more" in web.get(answer.headers["Location"])


def test_what_is_no_pending_retry_is_told_in_the_preview(web: Web, bench: Bench) -> None:
    (key,) = bench.fail()

    html = web.get(RETRY, id=key)

    assert "Nothing of it is pending" in html
    assert "<b>1</b>: it is no pending retry" in html


def test_if_none_is_selected_nothing_is_asked(web: Web) -> None:
    answer = web.http.get(RETRY, params={"older": "day"})

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/pending?older=day&done=nothing"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"all": "yes"}, 409),
        ({"all": "yes", "older": "year"}, 400),
        ({"all": "yes", "plan": "bogus"}, 409),
    ],
)
@pytest.mark.parametrize("path", [RETRY, RESOLVE])
def test_a_form_that_does_not_say_what_it_is_about_is_refused(
    web: Web, bench: Bench, path: str, fields: dict[str, str], status: int
) -> None:
    key = send(bench)

    answer = web.post(path, {"key": "k", **fields})

    assert answer.status_code == status
    assert shown(web.get("/pending")) == [key]


class TestARecovery:
    def test_is_told_with_how_many_retries_have_no_outcome(self, web: Web, bench: Bench) -> None:
        send(bench)
        begin_recovery(bench.db, bench.db.read(lambda tx: tx.now), "ada")

        html = web.get("/pending")

        assert "nothing is presumed to have succeeded until this ends" in html
        assert "1 retry sent since" in html

    def test_is_ended_by_its_button(self, web: Web, bench: Bench) -> None:
        begin_recovery(bench.db, bench.db.read(lambda tx: tx.now), "ada")
        form = forms_of(web.get("/pending"))[END_RECOVERY]

        answer = web.post(END_RECOVERY, form)

        assert "The recovery is over" in web.get(answer.headers["location"])
        assert get_recovery(bench.db) is None

    def test_that_is_not_under_way_is_not_told(self, web: Web) -> None:
        assert "Recovery" not in web.get("/pending")
