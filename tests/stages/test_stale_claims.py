"""Marking locks no message: what changes between its look and its claims is never sent by them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from retrier.domain.archive_operation import Act
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from tests.conftest import opened_empty
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.between import BetweenLookAndClaims
from tests.support.factories import confirmation, failure

pytestmark = pytest.mark.postgres

Change = Callable[[Bench, str], None]


def fails_again(bench: Bench, _unique_id: str) -> None:
    bench.receive(failure(queue=QUEUE, message_id="7"))


def is_confirmed(bench: Bench, unique_id: str) -> None:
    bench.receive(confirmation(unique_id))


def is_archived(bench: Bench, unique_id: str) -> None:
    apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [unique_id])


def is_resolved(bench: Bench, unique_id: str) -> None:
    apply_action(bench.db, Action(act=Act.RESOLVE, who="ada"), [unique_id])


def is_archived_and_taken_back(bench: Bench, unique_id: str) -> None:
    is_archived(bench, unique_id)
    apply_action(bench.db, Action(act=Act.UNARCHIVE, who="ada"), [unique_id])


@dataclass(slots=True, kw_only=True)
class Race:
    """A message that changes as it is claimed, another one that does not, and their operation."""

    bench: Bench
    changed: str
    other: str
    change: Change
    operation: CreatedOperation
    happened: bool = False

    def act(self) -> None:
        if not self.happened:
            self.happened = True
            self.change(self.bench, self.changed)


# With SQLite nobody can write between the look and the claims: they are in one transaction.
@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with opened_empty("postgres", request) as db:
        yield db


@pytest.fixture(
    params=[fails_again, is_confirmed, is_archived, is_resolved, is_archived_and_taken_back]
)
def change(request: pytest.FixtureRequest) -> Change:
    found: Change = request.param
    return found


@pytest.fixture(params=["of_all", "by_name"])
def race(database: Database, request: pytest.FixtureRequest, change: Change) -> Iterator[Race]:
    bench = Bench(database)
    (changed,) = bench.fail(message_id="7")
    (other,) = bench.fail()
    asked = bench.ask_all() if request.param == "of_all" else bench.ask([changed, other])
    race = Race(bench=bench, changed=changed, other=other, change=change, operation=asked)
    between = BetweenLookAndClaims(database, race.act)
    yield race
    between.close()


def test_what_changes_as_it_is_claimed_is_not_sent(race: Race) -> None:
    race.bench.work()

    assert race.happened
    assert race.bench.sent() == [race.other]


def test_what_changes_as_it_is_claimed_is_not_even_staged(race: Race) -> None:
    race.bench.work()

    mark = race.changed.encode()
    assert not [each for each in race.bench.transport.published if mark in each.raw]


def test_the_claim_of_what_changed_is_dropped_with_the_step_into_forwarding(race: Race) -> None:
    seen: list[set[str]] = []
    race.bench.at("staging.committed", lambda: seen.append(set(race.bench.claims())))

    race.bench.work()

    assert seen == [{race.other}]


def test_the_operation_adds_up_without_what_changed(race: Race) -> None:
    race.bench.work()

    row = race.bench.operation(race.operation)
    assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 1, 1)


def test_a_batch_of_which_everything_changed_is_deleted(race: Race) -> None:
    # Given that the other one is gone, too
    is_archived(race.bench, race.other)

    race.bench.work()

    assert race.bench.batches() == []
    assert race.bench.claims() == {}


def test_what_changed_can_be_retried_by_the_next_who_asks(database: Database) -> None:
    bench = Bench(database)
    (unique_id,) = bench.fail(message_id="7")
    bench.ask_all()
    left = [fails_again]
    between = BetweenLookAndClaims(database, lambda: left.pop()(bench, unique_id) if left else None)
    bench.work()
    between.close()
    assert bench.sent() == []

    bench.ask_all()
    bench.work()

    assert bench.sent() == [unique_id]
