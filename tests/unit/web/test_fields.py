"""Declared fields on the page: as conditions, as columns of a list, and with a message."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest

from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.fields import declare
from tests.support.web import Web, forms_of

ROW = re.compile(r'data-row="message/([^"]+)"')


@pytest.fixture
def web(database: Database) -> Iterator[Web]:
    """Give the page of a service that declares fields."""
    api = Api(database, fields=declare(order="/order", total="/total"))
    made = Web(api)
    yield made
    made.close()
    api.http.close()


@pytest.fixture
def two(web: Web) -> list[str]:
    return web.api.receive(
        failure(fields={"order": "4711", "total": "5"}), failure(fields={"order": "<b>4712"})
    )


def test_a_list_is_narrowed_by_a_value(web: Web, two: list[str]) -> None:
    html = web.get("/messages", **{"field.order": "4711"})

    assert ROW.findall(html) == [two[0]]
    assert '<span class="soft">order</span> <bdi>4711</bdi> <a href="/messages"' in html


@pytest.mark.usefixtures("two")
def test_a_condition_can_be_typed_for_each_field(web: Web) -> None:
    html = web.get("/messages", **{"field.order": "4711"})

    assert re.search(r'name="field.order" value="4711"', html)
    assert re.search(r'name="field.total" value=""', html)


def test_an_unknown_field_is_refused_with_those_that_are_known(web: Web) -> None:
    answer = web.http.get("/messages", params={"field.oder": "1"})

    assert answer.status_code == 400
    assert "No field is called oder. Declared in search.fields: order, total." in answer.text


def test_all_that_match_are_retried_and_no_others(web: Web, two: list[str]) -> None:
    chosen = {"act": "retry", "all": "1", "field.order": "4711"}
    form = forms_of(web.get("/messages/selected", **chosen))["/messages/retry"]

    answer = web.post("/messages/retry", form)

    assert answer.status_code == 303
    (operation,) = web.api.get("operations")
    assert (operation["selection"], operation["total"]) == ({"field.order": "4711"}, 1)
    assert len(two) == 2


@pytest.mark.usefixtures("two")
def test_fields_are_columns_if_the_reader_wants_them(web: Web) -> None:
    assert 'data-label="order"' not in web.get("/messages")

    html = web.get("/messages", columns="order, total", sort="time_sent")

    assert html.count('data-label="order"') == 2
    assert (
        '<a href="/messages?sort=time_sent&amp;columns=order%2Ctotal&amp;field.order=4711">' in html
    )


@pytest.mark.usefixtures("two")
def test_a_value_is_text_and_nothing_else(web: Web) -> None:
    html = web.get("/messages", columns="order")

    assert "&lt;b&gt;4712" in html
    assert "<b>4712" not in html


def test_a_column_that_is_no_field_is_refused(web: Web) -> None:
    answer = web.http.get("/messages", params={"columns": "order,queue"})

    assert answer.status_code == 400
    assert "No field is called queue" in answer.text


def test_a_message_shows_its_values_with_a_way_to_those_alike(web: Web, two: list[str]) -> None:
    html = web.get(f"/messages/{two[0]}")

    assert '<a href="/messages?field.order=4711&amp;status=all"><bdi>4711</bdi></a>' in html


def test_a_view_keeps_conditions_and_columns(web: Web) -> None:
    query = "field.order=4711&columns=order"
    form = web.form(f"/save-view?view=messages&query={quote(query)}", "/save-view")

    answer = web.post("/save-view", {**form, "name": "night"})

    assert answer.status_code == 303, answer.text
    assert web.api.get("views")[0]["query"] == query


def test_messages_are_grouped_by_a_field_with_acts_on_each_value(web: Web) -> None:
    web.api.receive(
        failure(fields={"order": "<b>7"}),
        failure(fields={"order": "<b>7"}),
        failure(fields={"order": "8"}),
    )

    html = web.get("/groups/fields/order")

    assert re.findall(r'<td class="num" data-label="Messages">(.+?)</td>', html) == ["2", "1"]
    assert '<a class="cause" href="/messages?field.order=%3Cb%3E7">' in html
    assert "/messages/selected?act=retry&amp;all=1&amp;field.order=8&amp;back=" in html
    assert "/messages/selected?act=archive&amp;all=1&amp;field.order=8&amp;back=" in html


def test_a_value_that_reads_as_a_range_has_no_act(web: Web) -> None:
    web.api.receive(failure(fields={"order": "1..5"}), failure(fields={"order": "a..b"}))

    html = web.get("/groups/fields/order")

    assert "1..5</bdi>" in html
    assert "field.order=1..5" not in html
    assert "field.order=a..b" in html


def test_a_retry_of_a_value_is_of_its_messages_alone(web: Web) -> None:
    web.api.receive(
        failure(fields={"order": "7"}),
        failure(fields={"order": "8"}),
        failure(fields={"order": "7"}),
    )
    (href,) = re.findall(
        r'href="(/messages/selected[^"]+order=7&[^"]*)"',
        unescape(web.get("/groups/fields/order")).replace("act=archive", ""),
    )[:1]

    assert "2 messages" in web.get(href)


def test_groups_lead_to_those_of_each_field(web: Web) -> None:
    assert '<a href="/groups/fields/order">order</a>' in web.get("/groups")
    assert '<a href="/groups/fields/total">total</a>' in web.get("/groups/hosts")


def test_groups_by_an_unknown_field_are_not_found(web: Web) -> None:
    assert web.http.get("/groups/fields/colour").status_code == 404
