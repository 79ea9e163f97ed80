"""An act over a condition does to what its preview counted what it says, and to nothing else.

Each act is previewed on each face, with each kind of condition. Between the preview and the act
messages enter the selection, and one leaves it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import Cancel, read_plan
from retrier.domain.selection import Selection
from retrier.store.archive import Action, change
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import (
    cause_groups,
    event_log,
    failed_message_retries,
    failed_messages,
)
from tests.conftest import opened_empty
from tests.support.api import Api
from tests.support.archiving import make_archives, request_for, work_off_all
from tests.support.bench import Bench
from tests.support.command_line import CommandLine
from tests.support.factories import (
    ERROR_QUEUE,
    FAILED_AT,
    failed_import,
    failure,
    unique_id,
)
from tests.support.streams import ORDER, fail_in_stream
from tests.support.web import Web, forms_of

QUEUE = "orders"
FITTING: Mapping[str, Any] = {
    "queue": QUEUE,
    "endpoint": "Sales",
    "exception_type": "Shop.OutOfStock",
    "message_type": "Shop.PlaceOrder",
    "exception_message": "nothing left",
    "host": "m1",
    "process": "7",
    "node": "w1",
}
CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    "all": {"all": True},
    "queue": {"queue": QUEUE},
    "endpoint": {"endpoint": "Sales"},
    "exception type": {"exception_type": "Shop.OutOfStock"},
    "message type": {"message_type": "Shop.PlaceOrder"},
    "group": {"group": "looked up"},
    "text": {"text": "nothing left"},
    "host": {"host": "m1"},
    "process and node": {"process": "7", "node": "w1"},
    "times": {"failed_from": "2020-01-01T00:00:00Z", "failed_to": "2030-01-01T00:00:00Z"},
    "attempts": {"attempts_at_least": 1},
    "disposition": {"disposition": "any"},
    "several": {"queue": QUEUE, "text": "nothing left", "attempts_at_least": 1},
}


class World:
    """All faces on one database, and the processor that does what they ask for."""

    def __init__(self, db: Database) -> None:
        self.cli = CommandLine(db)
        self.bench: Bench = self.cli.bench
        self.api: Api = self.cli.api
        self.web = Web(self.api)

    def close(self) -> None:
        self.web.close()
        self.api.http.close()

    def post(self, path: str, body: object, method: str = "POST") -> Any:
        answer = self.api.http.request(method, f"/api/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def do(self, act: Act, ids: list[str]) -> None:
        """Let somebody else do something."""
        make_archives(self.bench.db, at_once=1000).ask(request_for(act, Selection(ids=tuple(ids))))

    def send(self, ids: list[str]) -> None:
        self.bench.ask(ids)
        self.work()

    def work(self) -> None:
        work_off_all(self.bench, chunk=1000)
        self.bench.work()

    def state(self) -> dict[str, tuple[str, str | None]]:
        """What can be seen of each message: its status, and the retry that it was sent with."""
        columns = failed_messages.c
        seen = select(columns.unique_message_id, columns.status, columns.last_retry_id)
        rows = self.bench.rows(seen)
        return {row["unique_message_id"]: (row["status"], row["last_retry_id"]) for row in rows}

    def clear(self) -> None:
        """Leave nothing that a further round could select."""
        statuses = self.bench.statuses()
        self.do(Act.UNARCHIVE, [key for key, each in statuses.items() if each == "archived"])
        self.do(Act.RESOLVE, [key for key, each in statuses.items() if each != "resolved"])


Finish = Callable[[], None]
"""Carries an act out that was previewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """How many messages a preview counted, and how the act follows."""

    count: int
    finish: Finish


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with opened_empty(getattr(request, "param", "sqlite"), request) as db:
        made = World(db)
        yield made
        made.close()


# Each act: from which state its messages come, and how one leaves that state otherwise.
def fail(world: World, count: int) -> list[str]:
    return world.bench.fail(count, **FITTING)


def archived(world: World, count: int) -> list[str]:
    ids = fail(world, count)
    world.do(Act.ARCHIVE, ids)
    return ids


def pending(world: World, count: int) -> list[str]:
    ids = fail(world, count)
    world.send(ids)
    return ids


SOURCES = {
    "retry": fail,
    "archive": fail,
    "resolve": fail,
    "unarchive": archived,
    "again": pending,
    "resolve pending": pending,
}


def leave(world: World, act: str, key: str) -> None:
    """Let one message go out of the selection: confirmed, or put aside by somebody else."""
    match act:
        case "retry" | "archive":
            world.do(Act.RESOLVE, [key])
        case "resolve":
            world.do(Act.ARCHIVE, [key])
        case "unarchive":
            world.do(Act.UNARCHIVE, [key])
            world.do(Act.RESOLVE, [key])
        case _:
            world.bench.confirm(key)


# The faces.
def by_api(world: World, act: str, chosen: Mapping[str, Any]) -> Previewed:
    path, count = "archive_operations", "total"
    body: Mapping[str, Any] = {"act": act, "selection": chosen}
    match act:
        case "retry":
            path, body, count = "operations", {"selection": chosen}, "would_retry"
        case "again" | "resolve pending":
            path = f"pendingretries/{'retry' if act == 'again' else 'resolve'}/all"
            body = {} if "all" in chosen else chosen
        case _:
            pass
    found = world.post(f"{path}/preview", body)
    method = "PATCH" if act == "resolve pending" else "POST"
    planned = {**body, "plan": found["plan"]}
    return Previewed(count=found[count], finish=lambda: world.post(path, planned, method))


def by_command(world: World, act: str, chosen: Mapping[str, Any]) -> Previewed:
    words: list[str] = []
    for name, value in chosen.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    command, count = [act], "total"
    match act:
        case "retry":
            count = "would_retry"
        case "again" | "resolve pending":
            command = ["pending", "retry" if act == "again" else "resolve"]
            words.append("--yes")
        case _:
            pass
    found = json.loads(world.cli.run(*command, *words, "--dry-run", "--json").stdout)
    plan = str(found["plan"])
    return Previewed(
        count=found[count], finish=lambda: _run(world, *command, *words, "--plan", plan)
    )


def _run(world: World, *words: str) -> None:
    result = world.cli.run(*words)
    assert result.exit_code == 0, result.output


STATUSES = {"unarchive": "archived", "again": "retryIssued", "resolve pending": "retryIssued"}


def by_page(world: World, act: str, chosen: Mapping[str, Any]) -> Previewed:
    verb = "resolve" if act == "resolve pending" else act
    status = STATUSES.get(act, "unresolved")
    conditions = {name: str(value) for name, value in chosen.items() if name != "all"}
    for name in ("failed_from", "failed_to"):
        if name in conditions:
            conditions[name] = conditions[name][:16]
    if status != "unresolved":
        conditions.pop("disposition", None)
    html = world.web.get("/messages/selected", status=status, act=verb, all="1", **conditions)
    (path, form), *_ = (each for each in forms_of(html).items() if each[0].startswith("/messages/"))
    return Previewed(count=_counted(html), finish=lambda: _press(world, path, form))


def _counted(html: str) -> int:
    button = html.split('class="go"')[1].split(">", 1)[1].split("<", maxsplit=1)[0]
    return int("".join(each for each in button if each.isdigit()))


def _press(world: World, path: str, form: Mapping[str, str]) -> None:
    answer = world.web.post(path, form)
    assert answer.status_code == 303, answer.text


SOME = {"all", "queue", "group", "text", "several"}
"""Conditions that are enough where each round sends messages, which takes most of the time."""


def is_tried(act: str, face: str, name: str) -> bool:
    """Pending retries are asked for by their queue, or all; on the page by any condition."""
    if act in {"again", "resolve pending"}:
        return name in (SOME if face == "page" else {"all", "queue"})
    return act != "retry" or face == "API" or name in SOME


FACES = {"API": by_api, "command line": by_command, "page": by_page}


def _group_of(world: World, key: str) -> str:
    cause = select(failed_messages.c.cause_id).where(failed_messages.c.unique_message_id == key)
    groups = select(cause_groups.c.group_id).where(cause_groups.c.cause_id.in_(cause))
    return str(world.bench.rows(groups)[0]["group_id"])


def check(world: World, act: str, face: str, name: str) -> None:
    """Preview, let messages enter and one leave, act; then clear up for the next round."""
    chosen = dict(CONDITIONS[name])
    counted = SOURCES[act](world, 3)
    if "group" in chosen:
        chosen["group"] = _group_of(world, counted[0])
    previewed = FACES[face](world, act, chosen)
    SOURCES[act](world, 2)
    leave(world, act, counted[0])
    before = world.state()

    previewed.finish()
    if act in {"retry", "again"}:
        world.work()

    after = world.state()
    changed = {key for key in after if after[key] != before[key]}
    assert (previewed.count, changed) == (3, {*counted[1:]}), f"{act}, {face}, {name}"
    world.clear()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("act", SOURCES)
def test_it_does_what_was_previewed_and_no_more(world: World, act: str, face: str) -> None:
    for name in CONDITIONS:
        if is_tried(act, face, name):
            check(world, act, face, name)


@pytest.mark.postgres
@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_it_does_so_on_postgresql(world: World) -> None:
    for number, act in enumerate(SOURCES):
        check(world, act, list(FACES)[number % 3], ("all", "queue")[number % 2])


class TestALimit:
    """A plan with a limit holds exactly the messages that its preview has shown."""

    def claim(self, world: World, ids: list[str]) -> CreatedOperation:
        """Let another retry claim messages, and not send them."""
        other = world.bench.ask(ids)
        world.bench.turn()
        return other

    @pytest.mark.parametrize("more", [{}, {"limit": 3}, {"limit": 9}])
    def test_does_not_take_what_was_claimed_and_is_released(
        self, world: World, more: Mapping[str, int]
    ) -> None:
        ids = fail(world, 8)
        other = self.claim(world, [ids[0], ids[3]])
        found = world.post("operations/preview", {"selection": {"queue": QUEUE}, "limit": 3})
        world.bench.steer(other, Cancel())
        world.bench.turn()

        asked = {"selection": {"queue": QUEUE}, "plan": found["plan"], **more}
        operation = world.post("operations", asked)
        world.work()

        assert sorted(world.bench.sent()) == sorted([ids[1], ids[2], ids[4]])
        assert world.api.get(f"operations/{operation['operation_id']}")["total"] == 3

    def test_is_not_needed_for_that(self, world: World) -> None:
        ids = fail(world, 4)
        other = self.claim(world, ids[:2])
        found = world.post("operations/preview", {"selection": {"all": True}})
        world.bench.steer(other, Cancel())
        world.bench.turn()

        world.post("operations", {"selection": {"all": True}, "plan": found["plan"]})
        world.work()

        assert found["would_retry"] == 2
        assert sorted(world.bench.sent()) == sorted(ids[2:])

    def test_of_more_than_a_plan_can_name_is_refused(self, world: World) -> None:
        fail(world, 2)
        found = world.post("operations/preview", {"selection": {"all": True}})
        plan = read_plan(found["plan"])
        assert plan is not None
        body = {"selection": {"all": True}, "plan": replace(plan, numbers=None).token}

        answer = world.api.http.post("/api/operations", json=body)

        assert (answer.status_code, answer.json()["preview"]["would_retry"]) == (409, 2)
        assert world.api.get("operations") == []


class TestWhatComesLate:
    """Something was on its way into the selection when the preview was made."""

    @pytest.mark.postgres
    @pytest.mark.parametrize("world", ["postgres"], indirect=True)
    def test_an_archive_that_began_before_and_ended_after_is_left(self, world: World) -> None:
        archived(world, 2)
        (late,) = fail(world, 1)
        body: dict[str, Any] = {"act": "unarchive", "selection": {"all": True}}
        with world.bench.db.engine.begin() as conn:
            tx = Transaction(conn, world.bench.db.sql)
            began = tx.now
            found = world.post("archive_operations/preview", body)
            change(tx, Action(act=Act.ARCHIVE, who="ada"), [late])

        world.post("archive_operations", {**body, "plan": found["plan"]})

        assert found["total"] == 2
        assert world.bench.statuses()[late] == "archived"
        assert world.bench.message(late)["last_modified"] == began

    def test_a_retry_that_became_old_enough_is_left(self, world: World) -> None:
        old, young = pending(world, 2)
        age(world, old, by=7200)
        age(world, young, by=3630)
        found = world.post("pendingretries/resolve/all/preview", {"older_than": 3600})
        plan = read_plan(found["plan"])
        assert plan is not None
        a_minute_ago = replace(plan, at=plan.at - timedelta(minutes=1)).token

        body = {"older_than": 3600, "plan": a_minute_ago}
        world.post("pendingretries/resolve/all", body, "PATCH")

        assert world.bench.statuses() == {old: "resolved", young: "retry_issued"}

    def test_a_message_that_got_an_attempt_more_is_left(self, world: World) -> None:
        first = failure(**FITTING)
        world.bench.receive(first)
        body: dict[str, Any] = {"act": "archive", "selection": {"attempts_at_least": 2}}
        found = world.post("archive_operations/preview", body)
        earlier = FAILED_AT - timedelta(hours=1)
        same = {"message_id": first.message_id, "body": first.body}
        world.bench.receive(failure(**{**FITTING, **same, "time_of_failure": earlier}))

        world.post("archive_operations", {**body, "plan": found["plan"]})

        assert world.bench.message(unique_id(first))["attempts"] == 2
        assert (found["total"], world.bench.statuses()[unique_id(first)]) == (0, "unresolved")


def age(world: World, key: str, *, by: float) -> None:
    """Let a retry have been sent so many seconds earlier."""
    number = world.api.number(key)
    claims = failed_message_retries.c
    with world.bench.db.engine.begin() as conn:
        sent = conn.execute(select(claims.forwarded_at).where(claims.number == number)).scalar_one()
        assert sent is not None
        earlier = {"forwarded_at": sent - timedelta(seconds=by)}
        conn.execute(
            update(failed_message_retries)
            .where(claims.number == number)
            .values(sending_since=earlier["forwarded_at"], **earlier)
        )


class TestFailedImports:
    @pytest.mark.parametrize("face", FACES)
    @pytest.mark.parametrize("queue", [None, ERROR_QUEUE])
    def test_what_came_since_is_not_read(self, world: World, face: str, queue: str | None) -> None:
        world.bench.receive(failed_import(body=b"1"), failed_import(body=b"2"))

        previewed = IMPORTS[face](world, queue)
        world.bench.receive(failed_import(body=b"3", received_at=FAILED_AT - timedelta(hours=1)))
        previewed.finish()

        kept = select(event_log.c.text).where(event_log.c.kind == "import_kept")
        (told,) = world.bench.rows(kept)
        assert previewed.count == 2
        assert told["text"].startswith("Read again and still kept as failed imports: 2")


def _imports_by_api(world: World, queue: str | None) -> Previewed:
    query = {} if queue is None else {"error_queue": queue}
    found = world.api.http.post("/api/imports/retry/preview", params=query).json()
    path, named = "/api/imports/retry", {**query, "plan": found["plan"]}

    def finish() -> None:
        assert world.api.http.post(path, params=named).status_code == 202

    return Previewed(count=found["total"], finish=finish)


def _imports_by_command(world: World, queue: str | None) -> Previewed:
    words = ["imports", "retry", *(["--all"] if queue is None else ["--queue", queue])]
    found = json.loads(world.cli.run(*words, "--dry-run", "--json").stdout)

    def finish() -> None:
        # What cannot be read ends the command with 1.
        assert world.cli.run(*words, "--plan", found["plan"]).exit_code == 1

    return Previewed(count=found["total"], finish=finish)


def _imports_by_page(world: World, queue: str | None) -> Previewed:
    html = world.web.get("/imports/selected", all="1", act="again", error_queue=queue or "")
    ((path, form),) = (
        each for each in forms_of(html).items() if each[0].startswith("/imports/selected/")
    )

    def finish() -> None:
        assert world.web.post(path, form).status_code == 200

    return Previewed(count=_counted(html), finish=finish)


IMPORTS = {"API": _imports_by_api, "command line": _imports_by_command, "page": _imports_by_page}


class TestAStream:
    @pytest.mark.parametrize("face", FACES)
    def test_what_is_held_since_is_held(self, world: World, face: str) -> None:
        ids = fail_in_stream(world.bench, 3)
        previewed = STREAMS[face](world)
        later = fail_in_stream(world.bench, 2)

        previewed.finish()

        released = {key for key in (*ids, *later) if world.bench.message(key)["released"]}
        assert (previewed.count, released) == (2, {*ids[1:]})


def _stream_by_api(world: World) -> Previewed:
    address = f"/api/streams/{ORDER}/release"
    found = world.api.http.post(f"{address}/preview", params={"queue": QUEUE}).json()

    def finish() -> None:
        body = {"plan": found["plan"]}
        answer = world.api.http.post(address, params={"queue": QUEUE}, json=body)
        assert answer.status_code == 202

    return Previewed(count=found["total"], finish=finish)


def _stream_by_command(world: World) -> Previewed:
    words = ("streams", "release", ORDER, "--queue", QUEUE)
    found = json.loads(world.cli.run(*words, "--dry-run", "--json").stdout)
    return Previewed(
        count=found["total"], finish=lambda: _run(world, *words, "--plan", found["plan"])
    )


def _stream_by_page(world: World) -> Previewed:
    html = world.web.get("/streams/release", queue=QUEUE, stream=ORDER, all="1")
    form = forms_of(html)["/streams/release"]
    return Previewed(count=_counted(html), finish=lambda: _press(world, "/streams/release", form))


STREAMS = {"API": _stream_by_api, "command line": _stream_by_command, "page": _stream_by_page}


class TestAnotherPlan:
    """The plan of one act, or of one selection, is none of another."""

    @pytest.mark.parametrize(
        ("act", "chosen"),
        [("resolve", {"all": True}), ("archive", {"queue": QUEUE}), ("unarchive", {"all": True})],
    )
    def test_does_nothing_and_answers_with_the_preview(
        self, world: World, act: str, chosen: Mapping[str, Any]
    ) -> None:
        (key,) = fail(world, 1)
        body = {"act": "archive", "selection": {"all": True}}
        plan = world.post("archive_operations/preview", body)["plan"]

        asked = {"act": act, "selection": chosen, "plan": plan}
        answer = world.api.http.post("/api/archive_operations", json=asked)

        assert answer.status_code == 409
        assert answer.json()["preview"]["total"] == (0 if act == "unarchive" else 1)
        assert world.bench.statuses() == {key: "unresolved"}

    def test_a_question_of_the_command_line_holds_what_it_counted(self, world: World) -> None:
        first = pending(world, 2)
        words = ("pending", "resolve", "--all")
        found = json.loads(world.cli.run(*words, "--dry-run", "--json").stdout)
        pending(world, 1)

        _run(world, *words, "--yes", "--plan", found["plan"])

        resolved = {key for key, each in world.bench.statuses().items() if each == "resolved"}
        assert resolved == {*first}
