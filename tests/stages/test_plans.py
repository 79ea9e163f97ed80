"""An act over a condition does to what its preview counted what it says, and to nothing else.

Each act is previewed on each face, with each kind of condition. Between the preview and the act
messages enter the selection, and one leaves it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import select

from retrier.domain.message_actions import Act
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database
from retrier.store.schema import cause_groups, failed_messages
from tests.conftest import opened_empty
from tests.support.api import Api
from tests.support.archiving import make_archives, request_for, work_off_all
from tests.support.bench import Bench
from tests.support.command_line import CommandLine
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
        self.bench = Bench(db)
        self.cli = CommandLine(db)
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
        return {
            key: (status, self.bench.retry_id(key)) for key, status in self.bench.statuses().items()
        }

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


def can_say(act: str, face: str, name: str) -> bool:
    """Pending retries are asked for by their queue, or all; on the page by any condition.

    There some are enough: what is sent for each takes most of the time.
    """
    some = {"all", "queue", *({"text", "group", "several"} if face == "page" else ())}
    return act not in {"again", "resolve pending"} or name in some


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
    world.work()

    after = world.state()
    changed = {key for key in after if after[key] != before[key]}
    assert (previewed.count, changed) == (3, {*counted[1:]}), f"{act}, {face}, {name}"
    world.clear()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("act", SOURCES)
def test_it_does_what_was_previewed_and_no_more(world: World, act: str, face: str) -> None:
    for name in CONDITIONS:
        if can_say(act, face, name):
            check(world, act, face, name)


@pytest.mark.postgres
@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_it_does_so_on_postgresql(world: World) -> None:
    for number, act in enumerate(SOURCES):
        check(world, act, list(FACES)[number % 3], ("all", "queue")[number % 2])
