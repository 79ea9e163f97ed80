"""A patched retry: what is sent is what the patch makes of each message, whoever is killed when."""

from itertools import product

import pytest
from sqlalchemy import select

from retrier.domain import headers
from retrier.domain.archive_operation import Act, ArchiveRequest
from retrier.domain.edits import AskedEdit, EditRefusal, EditRefused
from retrier.domain.patches import PatchRefusal
from retrier.domain.retry_operation import Canary, Cancel, RetryTerms
from retrier.domain.selection import Selection
from retrier.domain.wire import Refused, Returned
from retrier.store.archive import ask_archive
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import failed_messages
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.editing import asked, edit, lying
from tests.support.effects import BATCH_POINTS
from tests.support.patching import BODY, REPLACED, bodies, fail_as_sent, fail_old, with_patch
from tests.support.policies import SomePolicies
from tests.support.script import to_queue

_OF_A_SECRET_PATH = '{"body": [{"op": "remove", "path": "/Zecret"}]}'


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def counts(bench: Bench, created: CreatedOperation) -> tuple[str, int, int, int]:
    row = bench.operation(created)
    return row["state"], row["forwarded"], row["skipped"], row["failed"]


def take_all(bench: Bench) -> None:
    """Be the consumer that has taken what lay in the queue."""
    bench.transport.broker.delete(QUEUE)
    bench.transport.broker.declare(QUEUE)


def stored_ids(bench: Bench) -> list[str]:
    with bench.db.engine.connect() as conn:
        return list(conn.execute(select(failed_messages.c.unique_message_id)).scalars())


class TestWhatIsSent:
    def test_is_the_body_as_the_patch_makes_it(self, bench: Bench) -> None:
        (key,) = fail_old(bench)

        bench.ask([key], with_patch())
        bench.work()

        assert bodies(bench) == {key: REPLACED}

    def test_has_the_headers_that_the_patch_sets(self, bench: Bench) -> None:
        fail_old(bench)

        bench.ask_all(with_patch())
        bench.work()

        ((properties, _),) = lying(bench)
        assert properties.headers["X-Region"] == "eu"
        assert properties.headers["x-tenant"] == "a"

    def test_has_none_that_the_patch_removes(self, bench: Bench) -> None:
        fail_old(bench)

        bench.ask_all(with_patch())
        bench.work()

        ((properties, _),) = lying(bench)
        assert "X-Old" not in properties.headers

    def test_is_the_same_message_as_before(self, bench: Bench) -> None:
        (key,) = fail_old(bench)

        bench.ask_all(with_patch())
        bench.work()

        ((properties, _),) = lying(bench)
        assert properties.text(headers.UNIQUE_MESSAGE_ID) == key
        assert properties.text(headers.EDIT_OF) is None

    def test_leaves_the_stored_message_as_it_failed(self, bench: Bench) -> None:
        (key,) = fail_old(bench)

        bench.ask_all(with_patch())
        bench.work()

        assert bodies(bench) == {key: REPLACED}
        assert bench.message(key)["body_size"] == len(BODY)

    def test_is_another_request_without_the_patch(self, bench: Bench) -> None:
        first, second = fail_old(bench, 2)

        bench.ask([first], with_patch())
        bench.ask([second])
        bench.work()

        assert bodies(bench) == {first: REPLACED, second: BODY}


class TestWhatThePatchCannotBeAppliedTo:
    def test_is_never_sent(self, bench: Bench) -> None:
        fail_old(bench, body=b"plain")

        bench.ask_all(with_patch())
        bench.work()

        assert bodies(bench) == {}

    def test_is_unresolved_again_without_a_claim(self, bench: Bench) -> None:
        (key,) = fail_old(bench, body=b"plain")

        bench.ask_all(with_patch())
        bench.work()

        assert bench.message(key)["status"] == "unresolved"
        assert bench.claims() == {}

    def test_is_counted_as_failed_beside_the_others(self, bench: Bench) -> None:
        fail_old(bench, 3)
        fail_old(bench, 2, body=b"plain")

        created = bench.ask_all(with_patch())
        bench.work()

        assert counts(bench, created) == ("completed", 3, 0, 2)

    def test_says_why(self, bench: Bench) -> None:
        fail_old(bench, body=b"plain")

        created = bench.ask_all(with_patch())
        bench.work()

        assert str(PatchRefusal.NO_JSON) in bench.operation(created)["reason"]

    def test_says_why_without_a_path_of_the_body(self, bench: Bench) -> None:
        fail_old(bench, body=b"{}")

        created = bench.ask_all(RetryTerms(patch=_OF_A_SECRET_PATH))
        bench.work()

        reason = bench.operation(created)["reason"]
        assert "operation 1 of the patch (remove) finds nothing there" in reason
        assert "Zecret" not in reason

    def test_is_not_sent_by_a_policy_as_it_was(self, database: Database) -> None:
        bench = Bench(database, judge=SomePolicies(attempts=100).judging())
        (key,) = fail_old(bench, body=b"plain")

        bench.ask([key], with_patch())
        bench.work()

        assert bench.message(key)["disposition"] == "manual"

    def test_counts_for_a_canary(self, bench: Bench) -> None:
        fail_old(bench, body=b"plain")
        fail_old(bench, 3)

        created = bench.ask_all(with_patch(canary=Canary(size=1)))
        bench.work()

        assert bench.operation(created)["state"] == "paused"
        assert bodies(bench) == {}


class TestAMessageThatIsPatched:
    def test_is_resolved_by_the_confirmation_of_its_retry(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()

        bench.confirm(key)

        assert bench.message(key)["resolution"] == "confirmed"

    def test_fails_again_with_what_was_sent(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()

        fail_as_sent(bench, key)

        assert stored_ids(bench) == [key]
        assert bench.message(key)["status"] == "unresolved"
        assert bench.claims() == {}

    def test_that_fails_twice_is_one_message(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()

        fail_as_sent(bench, key)
        fail_as_sent(bench, key)

        assert stored_ids(bench) == [key]
        assert bench.message(key)["attempts"] == 3

    @pytest.mark.parametrize(
        "changed",
        [
            {"body": b'{"order":9,"total":1.10}'},
            {"body": BODY},
            {"headers": {"X-Region": "us", "x-tenant": "a"}},
            {"headers": {"x-tenant": "a"}},
        ],
    )
    def test_is_not_what_a_consumer_sends_under_its_headers(
        self, bench: Bench, changed: dict
    ) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()

        fail_as_sent(bench, key, **changed)

        assert len(stored_ids(bench)) == 2
        assert bench.message(key)["status"] == "retry_issued"

    def test_fails_again_after_a_person_has_resolved_it(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()
        act(bench, Act.RESOLVE, key)

        fail_as_sent(bench, key)

        assert stored_ids(bench) == [key]
        assert bench.message(key)["status"] == "unresolved"

    def test_goes_out_as_it_came_back_the_next_time(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()
        fail_as_sent(bench, key)
        take_all(bench)

        bench.ask([key])
        bench.work()

        assert bodies(bench) == {key: REPLACED}

    def test_that_cannot_reach_its_queue_is_not_sent_by_a_policy_as_it_was(
        self, database: Database
    ) -> None:
        bench = Bench(database, judge=SomePolicies(attempts=100).judging())
        (key,) = fail_old(bench)
        bench.transport.cue(Returned("NO_ROUTE"), when=to_queue(QUEUE))

        bench.ask([key], with_patch())
        bench.work()

        assert bench.message(key)["disposition"] == "manual"

    def test_that_a_frame_does_not_hold_is_unresolved_again(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.transport.cue(Refused("larger than a frame"), when=to_queue(QUEUE))

        bench.ask([key], with_patch())
        bench.work()

        assert bench.message(key)["status"] == "unresolved"


def act(bench: Bench, what: Act, *ids: str) -> None:
    request = ArchiveRequest(
        act=what, selection=Selection(ids=ids), originator="a test", requested_by="bob"
    )
    ask_archive(bench.db, request)


class TestAMessageThatChangesMeanwhile:
    def test_is_not_sent_if_it_is_archived(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        created = bench.ask([key], with_patch())

        act(bench, Act.ARCHIVE, key)
        bench.work()

        assert bodies(bench) == {}
        assert counts(bench, created) == ("completed", 0, 1, 0)

    def test_is_not_sent_if_it_is_claimed_by_another_retry(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask([key])
        created = bench.ask([key], with_patch())

        bench.work()

        assert bodies(bench) == {key: BODY}
        assert counts(bench, created) == ("completed", 0, 1, 0)

    def test_is_not_sent_if_a_person_has_edited_it(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        created = bench.ask([key], with_patch())

        assert isinstance(asked(bench, key), AskedEdit)
        bench.work()

        assert len(lying(bench)) == 1
        assert counts(bench, created) == ("completed", 0, 1, 0)

    def test_is_not_edited_once_it_is_claimed(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask([key], with_patch())
        bench.turn()

        found = edit(bench, key)

        assert isinstance(found, EditRefused)
        assert found.why in (EditRefusal.CLAIMED, EditRefusal.ISSUED)

    def test_is_patched_as_it_has_failed_last(self, bench: Bench) -> None:
        (key,) = fail_old(bench)
        bench.ask_all(with_patch())
        bench.work()
        fail_as_sent(bench, key)
        take_all(bench)
        again = {"body": [{"op": "replace", "path": "/order", "value": 9}]}

        bench.ask([key], with_patch(again))
        bench.work()

        assert bodies(bench) == {key: b'{"order":9,"total":1.10}'}

    def test_is_not_sent_once_its_operation_is_cancelled(self, bench: Bench) -> None:
        fail_old(bench, 3)
        created = bench.ask_all(with_patch())
        bench.turn()

        bench.steer(created, Cancel())
        bench.work()

        assert bodies(bench) == {}
        assert bench.operation(created)["state"] == "cancelled"


@pytest.mark.parametrize(("point", "time"), list(product(BATCH_POINTS, (1, 2))))
def test_whoever_is_killed_when_each_copy_is_what_the_patch_makes(
    database: Database, point: str, time: int
) -> None:
    bench = Bench(database, window=2)
    good, bad = fail_old(bench, 5), fail_old(bench, 2, body=b"plain")
    bench.ask_all(with_patch())
    bench.kill_at(point, time=time)
    try:
        bench.work()
    except Killed:
        bench.restart()
    bench.crash_at = lambda _point: None

    bench.work()

    found = lying(bench)
    assert {body for _, body in found} == {REPLACED}
    assert {properties.text(headers.UNIQUE_MESSAGE_ID) for properties, _ in found} == {*good}
    retries = {
        (properties.text(headers.UNIQUE_MESSAGE_ID), properties.text(headers.RETRY_ID))
        for properties, _ in found
    }
    assert len(retries) == len(good)
    assert [bench.message(key)["status"] for key in bad] == ["unresolved"] * 2
