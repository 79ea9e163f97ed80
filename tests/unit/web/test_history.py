"""The history of retries: the last ones, and those that nobody has taken note of."""

from retrier.domain.selection import Selection
from tests.support.bench import Bench
from tests.support.factories import failure
from tests.support.web import Web, forms_of


def test_where_nothing_is_over_it_says_so(web: Web) -> None:
    html = web.get("/history")

    assert "You have seen everything that is over." in html
    assert "No retry is over yet." in html


def test_what_is_over_is_listed_until_somebody_has_seen_it(web: Web) -> None:
    bench = Bench(web.api.db)
    bench.fail(2)
    asked = bench.ask_all()
    bench.work()
    address = f"/operations/{asked.operation_id}/acknowledge"
    form = forms_of(web.get("/history"))[address]

    web.post(address, form)

    html = web.get("/history")
    assert address not in html
    assert f"/operations/{asked.operation_id}" in html


def test_a_single_message_is_history_but_nobody_has_to_take_note(web: Web) -> None:
    bench = Bench(web.api.db)
    asked = bench.ask(bench.fail(1))
    bench.work()

    html = web.get("/history")

    assert f'data-row="history/{asked.operation_id}"' in html
    assert forms_of(html) == {}


def test_the_retry_of_a_group_is_seen_as_its_group_is(web: Web) -> None:
    bench = Bench(web.api.db)
    bench.fail(1)
    group = web.api.get("recoverability/groups")[0]["id"]
    web.api.http.post(f"/api/recoverability/groups/{group}/errors/retry")
    bench.work()
    (address,) = forms_of(web.get("/history"))

    web.post(address, {"key": "k"})

    (shown,) = web.api.get("recoverability/history")["historic_operations"]
    assert Selection(group=shown["request_id"]) == Selection(group=group)
    assert web.api.get("recoverability/history")["unacknowledged_operations"] == []


def test_where_one_came_back_it_is_not_shown_as_well_done(web: Web) -> None:
    bench = Bench(web.api.db)
    (key,) = bench.fail(1)
    asked = bench.ask([key])
    bench.work()
    bench.receive(
        failure(
            message_id=bench.message(key)["message_id"],
            stamped_id=key,
            retry_id=bench.retry_id(key),
        )
    )

    html = web.get("/history")

    assert '<span class="badge bad">completed</span>' in html
    assert "1 came back" in html
    assert f"/messages?operation={asked.operation_id}&amp;outcome=came_back" in html
