"""The page of the shop: what is broken, what to do, and a button to repair each part."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrier.demo.orders import Defect
from retrier.demo.shop import ShopCounts, ShopLog, count, counting, read_counts, write_counts
from retrier.demo.shop_page import shop_page, shop_view
from retrier.demo.workspace import Workspace
from retrier.store.engine.database import Database
from retrier.web.groups import GroupRow
from tests.support.api import Api
from tests.support.factories import failure
from tests.support.waiting import wait_until
from tests.support.web import Web


@pytest.fixture
def shop(tmp_path: Path) -> Workspace:
    workspace = Workspace(folder=tmp_path)
    workspace.set_up(port=0)
    write_counts(workspace.counts, ShopCounts(published=300, handled=165, given_up=135))
    return workspace


@pytest.fixture
def web(database: Database, shop: Workspace) -> Iterator[Web]:
    api = Api(database)
    made = Web(api, [shop_page(shop.folder)])
    yield made
    made.close()
    api.http.close()


def fail_gift(web: Web) -> str:
    (found,) = web.api.receive(failure(exception_type="KeyError"))
    return found


def test_it_is_in_the_bar_of_every_page(web: Web) -> None:
    assert '<a href="/demo">The shop</a>' in web.get("/")


def test_all_parts_are_broken_first(web: Web) -> None:
    html = web.get("/demo")

    assert "Three parts of a shop are broken" in html
    assert html.count('action="/demo/repair"') == len(Defect)


def test_the_counts_are_those_of_the_shop(web: Web) -> None:
    html = web.get("/demo")

    assert "<dd>165</dd>" in html
    assert "<dd>135</dd>" in html


def test_a_part_leads_to_a_message_of_its_group(web: Web) -> None:
    message = fail_gift(web)

    assert f'<a id="gift-bug-read" href="/messages/{message}">See why' in web.get("/demo")


def test_a_repair_removes_the_cause(web: Web, shop: Workspace) -> None:
    answer = web.post("/demo/repair", {"cause": "gift-bug"})

    assert answer.headers["Location"] == "/demo#gift-bug"
    assert shop.find_broken() == {Defect.PAYMENTS_DOWN, Defect.BAD_INPUT}
    assert "Two parts of a shop are broken" in web.get("/demo")


def test_a_repair_of_anything_else_is_404(web: Web, shop: Workspace) -> None:
    answer = web.post("/demo/repair", {"cause": "../shop.json"})

    assert answer.status_code == 404
    assert shop.counts.exists()


def test_another_site_repairs_nothing(web: Web, shop: Workspace) -> None:
    answer = web.http.post(
        "/demo/repair", data={"cause": "gift-bug"}, headers={"Origin": "http://evil.example"}
    )

    assert answer.status_code == 403
    assert Defect.GIFT_BUG in shop.find_broken()


def test_after_a_repair_the_group_is_to_be_retried(web: Web) -> None:
    fail_gift(web)

    before = web.get("/demo")
    web.post("/demo/repair", {"cause": "gift-bug"})

    assert "Look why, then repair it." in before
    assert "What failed before still waits: retry it." in web.get("/demo")


def test_what_has_two_causes_is_explained() -> None:
    group = GroupRow(group_id="g", title="KeyError: orders.py in wrap_gift", live="", count=0)

    view = shop_view([group], {Defect.PAYMENTS_DOWN}, {}, ShopCounts())

    assert "they wait with the payments now" in view.parts[0].next_step


def test_at_the_end_it_says_so(web: Web, shop: Workspace) -> None:
    for cause in Defect:
        web.post("/demo/repair", {"cause": cause})
    write_counts(shop.counts, ShopCounts(published=300, handled=300))

    assert "The shop works, and every order is handled" in web.get("/demo")


def test_without_the_demo_there_is_no_shop(database: Database) -> None:
    api = Api(database)
    plain = Web(api)

    assert plain.http.get("/demo").status_code == 404
    assert "/demo" not in plain.get("/")
    plain.close()
    api.http.close()


def test_a_shop_that_wrote_nothing_yet_has_counted_nothing(tmp_path: Path) -> None:
    assert read_counts(tmp_path / "shop.json") == ShopCounts()


def test_the_counts_of_the_log_are_written_when_they_change(tmp_path: Path) -> None:
    log, file = ShopLog(), tmp_path / "shop.json"

    with counting(log, file):
        log.count_published("order-0001")
        wait_until(lambda: read_counts(file).missing == 1, 30, "the order is counted")
        log.count_handled("order-0001")

    assert read_counts(file) == count(log.read()) == ShopCounts(published=1, handled=1)
