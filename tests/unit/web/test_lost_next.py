"""Messages that their library drops if they fail again: each face says so before a retry."""

from typing import Any

from retrier.domain.dialects.dialect import LOST_NEXT
from tests.support.factories import failure
from tests.support.web import Web

WARNED = "1 message would be lost if they fail again"


def preview(web: Web) -> Any:
    wanted = {"selection": {"all": True}}
    return web.api.http.post("/api/operations/preview", json=wanted).json()


def test_the_preview_of_the_api_counts_them(web: Web) -> None:
    web.api.receive(failure(failure_reason=LOST_NEXT), failure())

    (warning,) = preview(web)["warnings"]

    assert warning["kind"] == "lost_if_it_fails"
    assert warning["text"].startswith(WARNED)


def test_the_preview_does_not_speak_of_others(web: Web) -> None:
    web.api.receive(failure())

    assert preview(web)["warnings"] == []


def test_the_question_before_a_retry_says_it(web: Web) -> None:
    web.api.receive(failure(failure_reason=LOST_NEXT))

    assert WARNED in web.get("/retry")


def test_the_page_of_the_message_says_it(web: Web) -> None:
    (key,) = web.api.receive(failure(failure_reason=LOST_NEXT))

    assert "It would be lost if it fails again" in web.get(f"/messages/{key}")
