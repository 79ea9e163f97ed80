"""An edited message: it goes out in place of the one that failed, once, whoever is killed when."""

from datetime import timedelta
from itertools import product

import pytest

from retrier.domain import headers
from retrier.domain.archive_operation import Act, ArchiveRequest
from retrier.domain.breakers import BreakerKey, BreakerState, Per
from retrier.domain.edits import AskedEdit, EditRefusal, EditRefused
from retrier.domain.retry_operation import Cancel
from retrier.domain.selection import Selection
from retrier.domain.wire import Refused
from retrier.store.archive import ask_archive
from retrier.store.breakers import set_breaker
from retrier.store.engine.database import Database
from retrier.store.operation_requests import steer_operation
from retrier.store.redirects import create_redirect
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.editing import BODY, asked, edit, edit_row, lying, versions
from tests.support.effects import BATCH_POINTS
from tests.support.factories import failure
from tests.support.policies import SomePolicies
from tests.support.script import to_queue
from tests.support.streams import fail_in_stream, look_now


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def unique_id(bench: Bench) -> str:
    return bench.fail()[0]


def archive(bench: Bench, *ids: str) -> None:
    request = ArchiveRequest(
        act=Act.ARCHIVE, selection=Selection(ids=ids), originator="a test", requested_by="bob"
    )
    ask_archive(bench.db, request)


def refusal(found: AskedEdit | EditRefused) -> EditRefusal:
    assert isinstance(found, EditRefused)
    return found.why


class TestAnEditedMessage:
    def test_has_the_body_that_a_person_wrote(self, bench: Bench, unique_id: str) -> None:
        asked(bench, unique_id)

        bench.work()

        assert [body for _, body in lying(bench)] == [BODY.encode()]

    def test_says_of_which_message_it_is_an_edited_version(
        self, bench: Bench, unique_id: str
    ) -> None:
        asked(bench, unique_id)

        bench.work()

        ((properties, _),) = lying(bench)
        assert properties.text(headers.EDIT_OF) == unique_id
        assert properties.text(headers.UNIQUE_MESSAGE_ID) is None

    def test_has_an_id_of_its_own(self, bench: Bench, unique_id: str) -> None:
        edit_id = asked(bench, unique_id).edit_id

        bench.work()

        ((properties, _),) = lying(bench)
        assert properties.fields["message_id"] == edit_row(bench, edit_id)["message_id"]

    def test_names_the_retry_that_sent_it(self, bench: Bench, unique_id: str) -> None:
        edit_id = asked(bench, unique_id).edit_id

        bench.work()

        ((properties, _),) = lying(bench)
        assert properties.text(headers.RETRY_ID) == edit_row(bench, edit_id)["retry_id"]

    def test_resolves_its_message(self, bench: Bench, unique_id: str) -> None:
        asked(bench, unique_id)

        bench.work()

        row = bench.message(unique_id)
        assert (row["status"], row["resolution"]) == ("resolved", "edited")

    def test_leaves_no_claim(self, bench: Bench, unique_id: str) -> None:
        asked(bench, unique_id)

        bench.work()

        assert bench.claims() == {}

    def test_is_sent_once_recorded(self, bench: Bench, unique_id: str) -> None:
        edit_id = asked(bench, unique_id).edit_id

        bench.work()

        assert edit_row(bench, edit_id)["state"] == "sent"


class TestTheEdit:
    def test_has_the_claim_when_it_is_answered(self, bench: Bench, unique_id: str) -> None:
        edit_id = asked(bench, unique_id).edit_id

        assert bench.claims()[unique_id]["edit_id"] == edit_id

    def test_is_not_overtaken_by_a_retry_of_everything(self, bench: Bench, unique_id: str) -> None:
        bench.ask_all()
        asked(bench, unique_id)

        bench.work()

        assert versions(bench, unique_id) == ([BODY.encode()], [])

    def test_loses_to_a_retry_that_has_the_claim(self, bench: Bench, unique_id: str) -> None:
        bench.ask([unique_id])
        bench.turn()

        assert refusal(edit(bench, unique_id)) in (EditRefusal.CLAIMED, EditRefusal.ISSUED)

    def test_is_refused_while_another_is_sent(self, bench: Bench, unique_id: str) -> None:
        asked(bench, unique_id)

        found = edit(bench, unique_id, who="bob")

        assert refusal(found) is EditRefusal.EDITED
        assert "ada" in str(found)

    def test_is_refused_after_another_was_sent(self, bench: Bench, unique_id: str) -> None:
        asked(bench, unique_id)
        bench.work()

        found = edit(bench, unique_id, who="bob")

        assert refusal(found) is EditRefusal.EDITED
        assert "ada" in str(found)

    def test_completes_its_operation(self, bench: Bench, unique_id: str) -> None:
        operation = asked(bench, unique_id)

        bench.work()

        row = bench.operation(operation)
        assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 1, 0)


class TestAnEditThatIsNotSent:
    def test_is_dropped_when_its_message_is_archived(self, bench: Bench, unique_id: str) -> None:
        edit_id = asked(bench, unique_id).edit_id

        archive(bench, unique_id)
        bench.work()

        assert edit_row(bench, edit_id)["state"] == "dropped"
        assert (lying(bench), bench.statuses()) == ([], {unique_id: "archived"})

    def test_is_dropped_when_it_is_archived_after_it_was_staged(
        self, bench: Bench, unique_id: str
    ) -> None:
        edit_id = asked(bench, unique_id).edit_id
        bench.at("staging.committed", lambda: archive(bench, unique_id))

        bench.work()

        assert edit_row(bench, edit_id)["state"] == "dropped"
        assert lying(bench) == []

    def test_is_dropped_when_its_message_fails_again(self, bench: Bench) -> None:
        bench.receive(failure(queue=QUEUE, message_id="7"))
        (unique_id,) = bench.statuses()
        edit_id = asked(bench, unique_id).edit_id

        bench.receive(failure(queue=QUEUE, message_id="7"))
        bench.work()

        assert edit_row(bench, edit_id)["state"] == "dropped"
        assert (lying(bench), bench.statuses()) == ([], {unique_id: "unresolved"})

    def test_is_dropped_when_it_is_cancelled(self, bench: Bench, unique_id: str) -> None:
        edit = asked(bench, unique_id)

        steer_operation(bench.db, edit.operation_id, [Cancel()], "bob")
        bench.work()

        assert edit_row(bench, edit.edit_id)["state"] == "dropped"
        assert bench.statuses() == {unique_id: "unresolved"}

    def test_is_kept_when_the_broker_refuses_it(self, bench: Bench, unique_id: str) -> None:
        bench.transport.cue(Refused("no"), when=to_queue(QUEUE))
        edit_id = asked(bench, unique_id).edit_id

        bench.work()

        row = edit_row(bench, edit_id)
        assert (row["state"], bench.statuses()) == ("returned", {unique_id: "unresolved"})
        assert "no" in row["reason"]

    def test_is_kept_when_its_queue_is_gone(self, bench: Bench) -> None:
        (unique_id,) = bench.fail(queue="gone")
        edit_id = asked(bench, unique_id).edit_id

        bench.work()

        assert edit_row(bench, edit_id)["state"] == "returned"
        assert bench.message(unique_id)["disposition"] == "manual"

    def test_lets_another_one_be_made(self, bench: Bench, unique_id: str) -> None:
        bench.transport.cue(Refused("no"), when=to_queue(QUEUE))
        asked(bench, unique_id)
        bench.work()

        asked(bench, unique_id, text='{"order": "once more"}')
        bench.work()

        assert versions(bench, unique_id) == ([b'{"order": "once more"}'], [])

    def test_lets_its_message_be_sent_as_it_was(self, bench: Bench, unique_id: str) -> None:
        bench.transport.cue(Refused("no"), when=to_queue(QUEUE))
        asked(bench, unique_id)
        bench.work()

        bench.ask([unique_id])
        bench.work()

        assert bench.sent() == [unique_id]


class TestAnEditedMessageThatFails:
    @pytest.fixture
    def sent(self, bench: Bench, unique_id: str) -> dict[str, object]:
        edit_id = asked(bench, unique_id).edit_id
        bench.work()
        return edit_row(bench, edit_id)

    def fail(self, bench: Bench, sent: dict[str, object], **changes: object) -> str:
        before = set(bench.statuses())
        told = {
            "message_id": sent["message_id"],
            "retry_id": sent["retry_id"],
            "body": sent["body"],
        }
        bench.receive(failure(queue=QUEUE, **(told | changes)))
        (new,) = set(bench.statuses()) - before
        return new

    def test_is_another_message_that_names_the_first(
        self, bench: Bench, unique_id: str, sent: dict[str, object]
    ) -> None:
        new = self.fail(bench, sent)

        assert bench.message(new)["edit_of"] == unique_id
        assert bench.statuses() == {unique_id: "resolved", new: "unresolved"}

    def test_is_another_message_though_its_library_kept_the_old_id(
        self, bench: Bench, unique_id: str, sent: dict[str, object]
    ) -> None:
        """Of a task the id stands in the body, and only a header may have been edited."""
        first = bench.message(unique_id)

        new = self.fail(bench, sent, message_id=first["message_id"])

        assert bench.message(new)["edit_of"] == unique_id

    def test_is_no_edited_version_if_it_only_copies_the_retry_id(
        self, bench: Bench, sent: dict[str, object]
    ) -> None:
        new = self.fail(bench, sent, message_id="other", body=b"{}")

        assert bench.message(new)["edit_of"] is None

    def test_can_be_sent_again_as_any_other(self, bench: Bench, sent: dict[str, object]) -> None:
        new = self.fail(bench, sent)

        bench.ask([new])
        bench.work()

        assert bench.sent()[1:] == [new]

    def test_can_fail_before_it_is_recorded(self, bench: Bench, unique_id: str) -> None:
        edit_id = asked(bench, unique_id).edit_id
        bench.at("forwarding.published", lambda: self.fail(bench, edit_row(bench, edit_id)))

        bench.work()

        assert sorted(bench.statuses().values()) == ["resolved", "unresolved"]
        assert edit_row(bench, edit_id)["state"] == "sent"


class TestAnEditAndWhatHoldsMessages:
    def test_of_what_is_held_in_a_stream_is_refused(self, bench: Bench) -> None:
        _, follower = fail_in_stream(bench, 2)

        found = edit(bench, follower)

        assert refusal(found) is EditRefusal.HELD
        assert "held behind" in str(found)

    def test_of_the_head_lets_the_next_one_go_once_it_is_sent(self, bench: Bench) -> None:
        head, follower = fail_in_stream(bench, 2)
        bench.ask_all()
        asked(bench, head)

        bench.work()
        look_now(bench)
        bench.work()

        assert bench.sent() == ["", follower]
        assert versions(bench, head) == ([BODY.encode()], [])

    def test_passes_an_open_breaker_as_a_named_retry_does(
        self, bench: Bench, unique_id: str
    ) -> None:
        key = BreakerKey(per=Per.DESTINATION, name=QUEUE)
        set_breaker(bench.db, key, BreakerState.OPEN, lasts=timedelta(hours=1), who="ada", why=None)
        asked(bench, unique_id)

        bench.work()

        assert versions(bench, unique_id) == ([BODY.encode()], [])

    def test_follows_a_redirect(self, bench: Bench, unique_id: str) -> None:
        bench.transport.broker.declare("orders.new")
        create_redirect(bench.db, QUEUE, "orders.new", own_queues=frozenset(), who="ada")
        asked(bench, unique_id)

        bench.work()

        assert (len(lying(bench)), len(lying(bench, "orders.new"))) == (0, 1)


class TestAnEditUnderPolicies:
    @pytest.fixture
    def bench(self, database: Database) -> Bench:
        return Bench(database, judge=SomePolicies(delay=timedelta(0)).judging())

    def test_is_not_overtaken_by_what_is_due(self, bench: Bench, unique_id: str) -> None:
        asked(bench, unique_id)

        bench.work()

        assert versions(bench, unique_id) == ([BODY.encode()], [])

    def test_that_is_returned_is_not_followed_by_the_message_as_it_was(
        self, bench: Bench, unique_id: str
    ) -> None:
        bench.transport.cue(Refused("no"), when=to_queue(QUEUE))
        asked(bench, unique_id)

        bench.work()

        assert lying(bench) == []
        assert bench.message(unique_id)["disposition"] == "manual"


POINTS = [point for point in BATCH_POINTS if point not in ("marking.opened", "marking.claimed")]


class TestAKilledProcess:
    """At every point that an edit comes to: never both versions, never resolved and unsent."""

    @pytest.fixture(params=product(POINTS, (1, 2)), ids=str)
    def crash(self, request: pytest.FixtureRequest) -> tuple[str, int]:
        found: tuple[str, int] = request.param
        return found

    def test_leaves_one_version_that_is_sent(
        self, bench: Bench, unique_id: str, crash: tuple[str, int]
    ) -> None:
        point, time = crash
        edit_id = asked(bench, unique_id).edit_id
        bench.ask_all()
        bench.kill_at(point, time=time)

        doubt = 0
        try:
            bench.work()
        except Killed:
            doubt = len(bench.in_doubt())
        bench.restart()
        bench.work()

        edited, plain = versions(bench, unique_id)
        assert plain == []
        assert 1 <= len(edited) <= 1 + doubt
        assert set(edited) == {BODY.encode()}
        assert edit_row(bench, edit_id)["state"] == "sent"
        assert bench.statuses() == {unique_id: "resolved"}
