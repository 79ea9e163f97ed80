"""Messages that the broker would never take: each face says so before a retry."""

from typing import Any

from retrier.domain.copies import SendingTerms
from retrier.store.previews import MOST_FITTED
from tests.support.amqp_bytes import header, properties, string
from tests.support.factories import failure
from tests.support.web import Web

WARNED = "can never be sent: 131,"
TOO_LARGE = properties(headers=[header("trace", string(b"x" * 131_000))])


def preview(web: Web, **terms: object) -> Any:
    wanted = {"selection": {"all": True}, **terms}
    return web.api.http.post("/api/operations/preview", json=wanted).json()


def test_the_preview_of_the_api_counts_them(web: Web) -> None:
    web.api.receive(failure(raw=TOO_LARGE), failure())

    (warning,) = preview(web)["warnings"]

    assert warning["kind"] == "unsendable"
    assert warning["text"].startswith(f"1 message {WARNED}")


def test_the_question_before_a_retry_says_it(web: Web) -> None:
    web.api.receive(failure(raw=TOO_LARGE))

    assert WARNED in web.get("/retry")


def test_nothing_is_said_where_the_header_is_left_out(web: Web) -> None:
    web.api.receive(failure(raw=TOO_LARGE))

    assert preview(web, drop_headers=["trace"])["warnings"] == []


def test_nothing_is_said_where_the_settings_leave_the_header_out(web: Web) -> None:
    web.api.receive(failure(raw=TOO_LARGE))
    terms = SendingTerms(acknowledgement_queue="error", own_user=None, leave_out=("trace",))
    web.api.app.state.parts.gateway.terms_of = lambda _queue: terms

    assert preview(web)["warnings"] == []


def test_nothing_is_said_of_what_just_fits(web: Web) -> None:
    web.api.receive(failure(raw=properties(headers=[header("k", string(b"x" * 120_000))])))

    assert preview(web)["warnings"] == []


def test_of_very_many_the_first_are_looked_at(web: Web) -> None:
    web.api.receive(failure(raw=TOO_LARGE), *(failure() for _ in range(MOST_FITTED)))

    (warning,) = preview(web)["warnings"]

    assert warning["text"].startswith(f"1 message of the first 1,000 {WARNED}")
    assert warning["text"].endswith("Others were not looked at.")
