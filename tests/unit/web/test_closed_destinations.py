"""Messages whose retries are not sent, since they would go to an own queue: told before they are asked for."""

from typing import Any

import pytest

from retrier.store.redirects import create_redirect
from tests.support.bench import QUEUE, STAGING, Bench
from tests.support.factories import ERROR_QUEUE, failure
from tests.support.web import Web

LONG = "x" * 256


def ask(web: Web, **more: object) -> Any:
    wanted = {"selection": {"all": True}, **more}
    return web.api.http.post("/api/operations/preview", json=wanted).json()


def test_the_preview_of_the_api_says_why_nothing_is_sent_to_an_error_queue(web: Web) -> None:
    web.api.receive(failure(destination=ERROR_QUEUE), failure(queue="orders"))

    found = ask(web)

    (warning,) = found["warnings"]
    assert warning["kind"] == "destination_closed"
    assert warning["text"].startswith(f"1 message is not sent: the destination {ERROR_QUEUE} is an")
    reasons = {
        each["name"]: each.get("not_sent_because") for each in found["destinations"]["lines"]
    }
    assert reasons[ERROR_QUEUE] in warning["text"]
    assert reasons["orders"] is None


def test_so_it_does_of_the_staging_queue_and_of_a_name_that_is_too_long(web: Web) -> None:
    web.api.receive(failure(destination=STAGING), failure(destination=LONG))

    kinds = [each["kind"] for each in ask(web)["warnings"]]

    assert kinds == ["destination_closed", "destination_closed"]


def test_it_does_not_warn_where_another_queue_is_named(web: Web) -> None:
    web.api.receive(failure(destination=ERROR_QUEUE))

    assert ask(web, destination="orders")["warnings"] == []


def test_nobody_looks_whether_such_a_queue_exists(web: Web) -> None:
    web.api.receive(failure(destination=ERROR_QUEUE), failure(queue="orders"))
    looked: list[str] = []
    seen = web.api.look_at
    web.api.look_at = lambda queues: seen(looked.extend(queues) or queues)

    ask(web)

    assert looked == ["orders"]


def test_the_question_on_the_page_says_so(web: Web) -> None:
    web.api.receive(failure(destination=ERROR_QUEUE))

    html = web.get("/retry")

    assert "not sent, unless you name a queue below" in html
    assert f"1 message is not sent: the destination {ERROR_QUEUE} is an error queue" in html


@pytest.mark.parametrize(
    "path",
    [
        "/pending/retry?all=yes",
        "/messages/{}/again",
        "/messages/selected?act=again&status=retry_issued&all=1",
    ],
)
def test_so_does_each_question_before_a_retry_is_sent_once_more(web: Web, path: str) -> None:
    bench = Bench(web.api.db)
    (key,) = bench.fail()
    bench.ask([key])
    bench.work()
    # It was set before that queue became one of ours.
    create_redirect(web.api.db, QUEUE, ERROR_QUEUE, own_queues=frozenset(), who="ada")

    html = web.http.get(path.format(key)).text

    assert f"<bdi>{ERROR_QUEUE}</bdi>" in html
    assert f"1 message is not sent: the destination {ERROR_QUEUE} is an error queue" in html
