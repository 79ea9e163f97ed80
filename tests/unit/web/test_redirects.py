"""Redirects on the page: listed, set, changed, deleted."""

import httpx
import pytest

from retrier.http.parts import MissingQueues
from tests.contract.store_retries import SENT, bring_to
from tests.support.bench import QUEUE, STAGING, Bench
from tests.support.factories import failure
from tests.support.web import Web, forms_of


def create(web: Web, source: str = "old", target: str = "new") -> httpx.Response:
    form = web.form("/redirects", "/redirects")
    return web.post("/redirects", {**form, "from": source, "to": target})


def redirects(web: Web) -> list[tuple[str, str]]:
    return [
        (each["from_physical_address"], each["to_physical_address"])
        for each in web.api.get("redirects")
    ]


def only_id(web: Web) -> str:
    (found,) = web.api.get("redirects")
    return str(found["message_redirect_id"])


def follow(web: Web, answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    return web.get(answer.headers["Location"])


def test_without_any_it_says_what_one_is_for(web: Web) -> None:
    assert "There is no redirect." in web.get("/redirects")


def test_one_is_set(web: Web) -> None:
    html = follow(web, create(web))

    assert redirects(web) == [("old", "new")]
    assert "The redirect is set." in html


def test_the_same_form_sent_twice_sets_one(web: Web) -> None:
    form = {**web.form("/redirects", "/redirects"), "from": "old", "to": "new"}

    answers = [web.post("/redirects", form).status_code for _ in range(2)]

    assert answers == [303, 303]
    assert redirects(web) == [("old", "new")]


def test_it_shows_how_many_messages_it_concerns(web: Web) -> None:
    web.api.receive(failure(queue="old"), failure(queue="old"))
    create(web)

    assert 'data-label="Unresolved there">2<' in web.get("/redirects")


def test_a_queue_that_does_not_exist_is_told(web: Web) -> None:
    create(web)
    web.api.look_at = lambda _queues: MissingQueues(missing=frozenset({"new"}))

    assert "does not exist: retries to it fail" in web.get("/redirects")


def test_a_queue_that_was_not_answered_for_is_told(web: Web) -> None:
    web.api.look_at = lambda _queues: MissingQueues(unsure={"new": "nobody knows"})
    create(web, QUEUE, "new")

    assert "nobody knows" in web.get("/redirects")


@pytest.mark.parametrize(
    ("source", "target", "status"),
    [("", "new", 400), ("old", " ", 400), ("old", "old", 400), ("old", STAGING, 400)],
)
def test_what_is_none_is_refused(web: Web, source: str, target: str, status: int) -> None:
    assert create(web, source, target).status_code == status
    assert redirects(web) == []


@pytest.mark.parametrize(("source", "target"), [("old", "other"), ("new", "newer")])
def test_a_second_one_and_a_chain_are_refused(web: Web, source: str, target: str) -> None:
    create(web)

    assert create(web, source, target).status_code == 409
    assert redirects(web) == [("old", "new")]


def test_one_is_changed(web: Web) -> None:
    create(web)
    path = f"/redirects/{only_id(web)}"
    form = web.form(path, path)

    html = follow(web, web.post(path, {**form, "to": "newer"}))

    assert redirects(web) == [("old", "newer")]
    assert "newer" in html


def test_one_is_deleted_after_a_question_with_numbers(web: Web) -> None:
    web.api.receive(failure(queue="old"))
    create(web)
    path = f"/redirects/{only_id(web)}/delete"

    question = web.get(path)
    html = follow(web, web.post(path, forms_of(question)[path]))

    assert "1 unresolved message failed on old." in question
    assert redirects(web) == []
    assert "The redirect is deleted." in html


def test_an_unknown_one_is_404(web: Web) -> None:
    assert web.http.get("/redirects/nothing").status_code == 404
    assert web.post("/redirects/nothing", {"to": "new"}).status_code == 404


def test_names_are_shown_harmlessly(web: Web) -> None:
    create(web, "<script>alert(1)</script>", "\u202enew")

    html = web.get("/redirects")

    assert "<script>alert" not in html
    assert "\u202e" not in html


def set_with_pending(web: Web) -> list[httpx.Response]:
    """Send the form twice, as a double click does."""
    form = {**web.form("/redirects", "/redirects"), "from": QUEUE, "to": "new orders"}
    return [web.post("/redirects", {**form, "pending": "1"}) for _ in range(2)]


def test_what_is_pending_can_follow_it_once(web: Web) -> None:
    bench = Bench(web.api.db)
    retry = bring_to(bench, SENT)
    bench.transport.broker.declare("new orders")

    answers = set_with_pending(web)
    bench.work()

    assert "1 message asked for" in follow(web, answers[0])
    assert answers[1].headers["Location"] == answers[0].headers["Location"]
    assert bench.sent("new orders") == [retry.key]


def test_what_is_pending_stays_if_nobody_asks_for_it(web: Web) -> None:
    bench = Bench(web.api.db)
    bring_to(bench, SENT)
    bench.transport.broker.declare("new orders")

    create(web, QUEUE, "new orders")
    bench.work()

    assert bench.sent("new orders") == []


def test_that_nothing_was_pending_is_told(web: Web) -> None:
    assert "Nothing of it was pending" in follow(web, set_with_pending(web)[0])


def test_one_that_is_refused_retries_nothing(web: Web) -> None:
    bring_to(Bench(web.api.db), SENT)
    form = {**web.form("/redirects", "/redirects"), "from": QUEUE, "to": STAGING}

    answer = web.post("/redirects", {**form, "pending": "1"})

    assert answer.status_code == 400
    assert len(web.api.get("operations")) == 1
