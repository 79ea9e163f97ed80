"""The processor and the instances: who works, at what, and what waits."""

import re
from datetime import timedelta

from sqlalchemy import update

from retrier.store.processes import note_process
from retrier.store.schema import ledger, processor_lease
from retrier.web.parts import QueueState
from tests.contract.store_retries import BEING_SENT, bring_to
from tests.support.bench import Bench
from tests.support.factories import failure
from tests.support.processes import process
from tests.support.web import Web


def headline(html: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", html)
    assert found is not None
    return found[1]


def test_before_the_first_processor_it_says_so(web: Web) -> None:
    html = web.get("/processor")

    assert headline(html) == "No process was the processor yet"
    assert "no process holds the lease" in html


def test_the_processor_of_this_process_is_named(web: Web) -> None:
    web.api.become_processor()

    assert headline(web.get("/processor")) == "This process is the processor"


def test_the_processor_elsewhere_is_named(web: Web) -> None:
    bench = Bench(web.api.db)
    assert bench.context.lease.held

    assert re.match(r"The processor is process \d+ on ", headline(web.get("/processor")))


def test_a_lease_that_has_ended_is_held_by_nobody(web: Web) -> None:
    web.api.become_processor()
    with web.api.db.engine.begin() as conn:
        past = web.api.db.sql.now(conn) - timedelta(hours=1)
        conn.execute(update(processor_lease).values(expires_at=past))

    assert headline(web.get("/processor")).startswith("No process is the processor:")


def test_without_a_request_it_waits_for_one(web: Web) -> None:
    web.api.become_processor()

    assert "It waits: no retry is asked for." in web.get("/processor")


def test_a_batch_alive_is_shown_with_what_is_in_doubt(web: Web) -> None:
    retry = bring_to(Bench(web.api.db), BEING_SENT)

    html = web.get("/processor")

    assert f"of operation {retry.created.operation_id[:8]}" in html
    assert re.search(r'data-label="In doubt">1<', html)


def test_each_queue_is_shown_with_depth_and_trouble(web: Web) -> None:
    seen = {"is_staging": False, "is_known": True, "is_consumed": True}
    web.queues = [
        QueueState(name="full", depth=31204, **seen),
        QueueState(name="gone", depth=None, trouble="the queue is locked", **seen),
    ]

    html = web.get("/processor")

    assert "31,204 messages" in html
    assert "does not exist" in html
    assert "The queue is locked." in html


def test_a_part_of_the_process_that_does_not_work_says_why(web: Web) -> None:
    web.api.health = {"broker": (False, "connection refused")}

    html = web.get("/processor")

    assert re.search(r'badge bad">trouble</span> connection refused', html)


def test_what_each_instance_took_off_is_counted(web: Web) -> None:
    web.api.receive(failure(), failure())

    assert "<dt>test</dt><dd>2 deliveries</dd>" in web.get("/processor")


def test_the_ledger_adds_up(web: Web) -> None:
    web.api.receive(failure(), failure())

    html = web.get("/processor/ledger")

    assert html.count("It adds up.") == 2


def test_a_ledger_that_does_not_add_up_says_by_how_many(web: Web) -> None:
    web.api.receive(failure())
    with web.api.db.engine.begin() as conn:
        conn.execute(update(ledger).where(ledger.c.entry == "taken_off").values(count=3))

    assert "It does not add up: 2 messages of difference (2)." in web.get("/processor/ledger")


def test_processes_that_differ_are_named(web: Web) -> None:
    for version, pid in (("0.1.0", 1), ("0.2.0", 7)):
        note_process(web.api.db, process(pid=pid, version=version))

    html = web.get("/processor")

    assert "versions differ: 0.1.0 (process 1 on one); 0.2.0 (process 7 on one)" in html
