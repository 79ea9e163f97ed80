"""The event log: newest first, narrowed by kind, message and operation."""

import re

import pytest

from retrier.domain.events import KINDS, ROUTINE
from retrier.store.event_log import find_newest_event
from tests.support.bench import Bench
from tests.support.project import ROOT
from tests.support.web import Web

DOCUMENTED = re.compile(r"^\| (`[a-z_`, ]+`) \|", re.MULTILINE)


@pytest.fixture
def bench(web: Web) -> Bench:
    return Bench(web.api.db)


def kinds(html: str) -> list[str]:
    badges = re.findall(r'<span class="badge[^"]*">([^<]+)</span></td>', html)
    return [each.replace(" ", "_") for each in badges]


def test_an_empty_log_says_what_would_be_there(web: Web) -> None:
    assert "Nothing has happened yet." in web.get("/events")


def test_the_newest_comes_first(web: Web, bench: Bench) -> None:
    bench.fail()
    bench.ask_all()
    bench.work()

    assert kinds(web.get("/events"))[-1] == "retry_asked"


def test_it_is_narrowed_by_kind_and_operation(web: Web, bench: Bench) -> None:
    asked = [bench.ask(bench.fail()) for _ in range(2)]

    html = web.get("/events", kind="retry_asked", operation=asked[0].operation_id)

    assert kinds(html) == ["retry_asked"]


def test_it_is_narrowed_by_message(web: Web, bench: Bench) -> None:
    one, other = bench.fail(2)
    for key in (one, other):
        web.api.http.patch(f"/api/errors/{key}/archive")

    html = web.get("/events", message=one)

    assert f'href="/messages/{one}"' in html
    assert f'href="/messages/{other}"' not in html


def test_what_is_no_id_is_refused_in_words(web: Web) -> None:
    answer = web.http.get("/events", params={"message": "abc"})

    assert answer.status_code == 400
    assert "its first 8 or more" in answer.text


def test_what_is_routine_is_left_out_unless_it_is_asked_for(web: Web, bench: Bench) -> None:
    bench.fail()
    bench.ask_all()
    bench.work()

    usual, whole = kinds(web.get("/events")), kinds(web.get("/events", routine="yes"))

    assert not ROUTINE.intersection(usual)
    assert {"batch_staged", "batch_forwarded"} < set(whole)


def test_an_operation_tells_its_events_without_what_is_routine(web: Web, bench: Bench) -> None:
    bench.fail()
    asked = bench.ask_all()
    bench.work()

    html = web.get(f"/operations/{asked.operation_id}")

    assert "batch staged" not in html
    assert f"/events?operation={asked.operation_id}&amp;routine=yes" in html


def test_one_more_kind_is_added_to_those_that_are_wanted(web: Web, bench: Bench) -> None:
    (key,) = bench.fail()
    web.api.http.patch(f"/api/errors/{key}/archive")
    web.api.http.patch("/api/errors/unarchive", json=[key])
    bench.ask_all()
    bench.work()

    html = web.get("/events", kind="retry_asked", also="message_archived")

    assert sorted(kinds(html)) == ["message_archived", "retry_asked"]
    assert 'aria-label="Remove kind retry asked"' in html


def test_it_is_narrowed_to_people_and_to_one_of_them(web: Web, bench: Bench) -> None:
    (key,) = bench.fail()
    web.api.http.patch(f"/api/errors/{key}/archive", headers={"X-Retrier-User": "ada"})
    grace = {"X-Retrier-User": "grace"}
    web.api.http.patch("/api/errors/unarchive", json=[key], headers=grace)
    bench.ask_all()
    bench.work()

    assert "operation_completed" in kinds(web.get("/events"))
    assert "operation_completed" not in kinds(web.get("/events", people="yes"))
    assert kinds(web.get("/events", who="grace")) == ["message_unarchived"]


def test_the_beginning_of_an_id_is_enough(web: Web, bench: Bench) -> None:
    asked = [bench.ask(bench.fail()) for _ in range(2)]

    html = web.get("/events", operation=asked[0].operation_id[:8])

    assert kinds(html) == ["retry_asked"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kind": "retry_askd"}, "perhaps retry_asked is meant"),
        ({"kind": "nonsense"}, "No event has the kind nonsense"),
        ({"operation": "3f2b91c0"}, "No event is about an operation whose id begins with 3f2b91c0"),
        ({"people": "perhaps"}, "It is yes or no."),
        ({"since": "1h", "until": "2h"}, "lies before its beginning"),
    ],
)
def test_what_nothing_can_match_is_refused_in_words(
    web: Web, query: dict[str, str], words: str
) -> None:
    answer = web.http.get("/events", params=query)

    assert answer.status_code == 400
    assert words in answer.text


def test_older_ones_are_on_further_pages(web: Web, bench: Bench) -> None:
    (key,) = bench.fail()
    for act in ("archive", "unarchive") * 30:
        web.api.http.patch(f"/api/errors/{act}", json=[key])

    first = web.get("/events")
    (older,) = re.findall(r'href="(/events\?before=\d+)">Older', first)
    second = web.get(older)

    rows = [re.findall(r'data-row="event/(\d+)"', html) for html in (first, second)]
    assert len(rows[0]) == 50
    assert max(map(int, rows[1])) < min(map(int, rows[0]))
    assert "Newest" in second


def test_what_is_new_is_told_from_the_newest_event_on(web: Web, bench: Bench) -> None:
    bench.ask(bench.fail())
    newest = find_newest_event(web.api.db)

    html = web.get("/events")

    assert f'data-news-since="{newest}"' in html
    assert 'data-news-ids="events"' in html


def test_where_it_is_narrowed_nobody_can_say_what_is_new(web: Web) -> None:
    assert "data-news" not in web.get("/events", kind="retry_asked")


def test_every_kind_that_is_documented_can_be_chosen() -> None:
    page = (ROOT / "docs" / "database.md").read_text()
    section = page.split("## `event_log`")[1].split("\n## ")[0]
    documented = {
        name for cell in DOCUMENTED.findall(section) for name in re.findall(r"[a-z_]+", cell)
    }

    columns = {"event_id", "at", "kind", "who", "text", "unique_message_id", "operation_id"}
    assert set(KINDS) == documented - columns - {"batch_id", "details"}
