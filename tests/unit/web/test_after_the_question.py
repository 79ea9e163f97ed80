"""What enters a list between a question and its answer is not part of what was asked."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from retrier.domain.archive_operation import Act
from retrier.store.archive import Action
from retrier.store.schema import failed_message_retries, failed_messages
from tests.support.acting import apply_action
from tests.support.bench import Bench
from tests.support.web import Web, forms_of

LATER = timedelta(minutes=1)


@pytest.fixture
def bench(web: Web) -> Bench:
    return Bench(web.api.db)


def archive(bench: Bench, after: timedelta = timedelta(0)) -> str:
    """Let one message have been archived; return its id."""
    (key,) = bench.fail()
    apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [key])
    at = bench.db.read(lambda tx: tx.now) + after
    mine = failed_messages.c.unique_message_id == key
    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).where(mine).values(last_modified=at))
    return key


def send(bench: Bench, after: timedelta = timedelta(0)) -> str:
    """Let the retry of one message have been sent; return its id."""
    (key,) = bench.fail()
    bench.ask([key])
    bench.work()
    sent = bench.db.read(lambda tx: tx.now) + after
    mine = failed_message_retries.c.number == bench.message(key)["number"]
    with bench.db.engine.begin() as conn:
        values = {"sending_since": sent, "forwarded_at": sent}
        conn.execute(update(failed_message_retries).where(mine).values(**values))
    return key


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("/messages/selected", {"act": "unarchive", "all": "1", "status": "archived"}),
        ("/archived/unarchive", {}),
    ],
)
def test_what_is_archived_meanwhile_stays_archived(
    web: Web, bench: Bench, question: str, asked: dict[str, str]
) -> None:
    shown = archive(bench)
    ((to, form),) = forms_of(web.get(question, **asked)).items()
    other = archive(bench, LATER)

    web.post(to, form)

    assert (bench.statuses()[shown], bench.statuses()[other]) == ("unresolved", "archived")


@pytest.mark.parametrize("act", ["again", "resolve"])
def test_what_is_sent_meanwhile_is_left_to_its_consumer(web: Web, bench: Bench, act: str) -> None:
    shown = send(bench)
    asked = {"act": act, "all": "1", "status": "retryIssued"}
    form = forms_of(web.get("/messages/selected", **asked))[f"/messages/{act}"]
    other = send(bench, LATER)

    web.post(f"/messages/{act}", form)

    assert bench.statuses()[shown] != "retry_issued"
    assert bench.statuses()[other] == "retry_issued"


@pytest.mark.parametrize("act", ["again", "unarchive", "resolve"])
def test_a_form_that_does_not_say_when_it_was_asked_does_nothing(web: Web, act: str) -> None:
    fields = {"key": "k", "all": "1", "status": "retryIssued"}

    assert web.post(f"/messages/{act}", fields).status_code == 409
