"""The page of a message that is open: it is told each change of its message, and of no other."""

from tests.contract.store_rows import again
from tests.support.bench import Bench
from tests.support.factories import confirmation, failure
from tests.support.web import Web

NOBODY = "b0f4cb64-9b3e-4a4b-9a11-0d1b6a3d2f6e"


def mark_of(web: Web, key: str) -> str | None:
    """Return what open pages are told of a message."""
    web.counts.note_change()
    found = web.counts.snapshot().messages.get(key)
    return found.state if found else None


def test_it_is_told_that_its_message_was_archived(web: Web) -> None:
    (key,) = web.api.receive(failure())
    web.counts.note_reader_of(key)
    before = mark_of(web, key)

    web.api.http.patch("/api/errors/archive", json=[key]).raise_for_status()

    assert mark_of(web, key) != before


def test_it_is_told_each_step_of_a_retry(web: Web) -> None:
    bench = Bench(web.api.db)
    (key,) = bench.fail()
    web.counts.note_reader_of(key)
    marks = [mark_of(web, key)]

    bench.ask([key])
    bench.at("forwarding.published", lambda: marks.append(mark_of(web, key)))
    bench.work()
    marks.append(mark_of(web, key))
    bench.receive(confirmation(key))
    marks.append(mark_of(web, key))

    assert len(set(marks)) == 4


def test_nothing_is_told_while_nothing_changes(web: Web) -> None:
    (key,) = web.api.receive(failure())
    web.counts.note_reader_of(key)

    assert mark_of(web, key) == mark_of(web, key)


def test_it_is_told_how_often_its_message_failed(web: Web) -> None:
    first = failure()
    (key,) = web.api.receive(first)
    web.counts.note_reader_of(key)

    web.api.receive(again(first))
    web.counts.note_change()

    assert web.counts.snapshot().messages[key].failures == 2


def test_a_message_whose_page_was_closed_costs_nothing(web: Web) -> None:
    (key,) = web.api.receive(failure())
    web.counts.note_reader_of(key)

    web.api.clock.advance(61)

    assert mark_of(web, key) is None


def test_a_made_up_id_is_not_looked_for(web: Web) -> None:
    for key in ("no id", "%00", NOBODY):
        web.counts.note_reader_of(key)

    assert dict(web.counts.snapshot().messages) == {}


def test_its_page_says_which_state_it_shows(web: Web) -> None:
    (key,) = web.api.receive(failure())
    web.counts.note_reader_of(key)

    html = web.get(f"/messages/{key}")

    assert f'data-watch="{key}" data-seen="{mark_of(web, key)}"' in html
