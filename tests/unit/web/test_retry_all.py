"""Everything that is unresolved is retried from the overview, after a preview."""

import pytest

from tests.support.factories import failure
from tests.support.web import Web


def test_the_overview_offers_it(web: Web) -> None:
    web.api.receive(failure())

    assert 'href="/retry"' in web.get("/")


def test_with_nothing_unresolved_it_is_not_offered(web: Web) -> None:
    assert 'href="/retry"' not in web.get("/")


def test_the_preview_counts_and_changes_nothing(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="payments"))

    html = web.get("/retry")

    assert "Retry 2 messages?" in html
    assert "payments" in html
    assert web.api.get("operations") == []


def test_what_the_preview_counted_is_asked_for_once(web: Web) -> None:
    web.api.receive(failure(queue="orders"), failure(queue="payments"))
    form = web.form("/retry", "/retry")
    web.api.receive(failure())

    answers = [web.post("/retry", {**form, "why": "fixed"}).status_code for _ in range(2)]

    (asked,) = web.api.get("operations")
    assert answers == [303, 303]
    assert (asked["total"], asked["why"]) == (2, "fixed")


@pytest.mark.parametrize("plan", ["", "bogus", "W10"])
def test_nothing_is_asked_for_without_the_plan_of_the_preview(web: Web, plan: str) -> None:
    """It would be about what has failed since, too."""
    web.api.receive(failure())
    form = web.form("/retry", "/retry")

    answer = web.post("/retry", {**form, "plan": plan})

    assert (answer.status_code, web.api.get("operations")) == (409, [])
